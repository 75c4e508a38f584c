"""Which names are of inputs: what a glob or an ending wants, and nothing hides or excludes."""

import fnmatch
import re
from collections.abc import Callable, Collection

from tasks.protocol.urls import is_web

GLOB = re.compile(r"[*?\[]")
ALL_OF_IT = ("/", "/*", "/**")
"""How patterns end that match all that is in a folder."""
NO_NAME = "\0"
"""No file has it."""
BEGINNING = re.compile(r"^(\w+://|\./)")


def glob_in(path: str) -> re.Match[str] | None:
    """Where a path begins to be a glob; the web has none, and other uses for their characters."""
    return None if is_web(path) else GLOB.search(path)


def refuse_depth_in_name(path: str) -> None:
    """Refuse a glob whose ** is but a part of a name, as a shell lets one write it.

    Raises:
        ValueError: it is; says what may be meant.
    """
    special = glob_in(path)
    for part in path[path.rfind("/", 0, special.start()) + 1 :].split("/") if special else ():
        if "**" in part and part != "**":
            meant = path.replace(part, f"**/{re.sub(r'[*]+', '*', part)}")
            raise ValueError(
                "** stands for folders of any depth, and must be a part of the path of its own: "
                f"did you mean {meant}?"
            )


def is_shown_by(glob: str, name: str, shows: Callable[..., bool]) -> bool:
    """Whether what a glob matches is shown; what lies before the glob is named itself."""
    special = glob_in(glob)
    fixed = glob.rfind("/", 0, special.start() if special else None)
    return shows(name[fixed:], glob[fixed:])


def endings(glob: str, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """What names of files must end with that a glob matches; where it spells one out, nothing."""
    return () if glob.rsplit("/", 1)[-1].strip("*") else suffixes


def is_below(folder: str, name: str, suffixes: tuple[str, ...], shows: Callable[..., bool]) -> bool:
    """Whether a file is an input that a folder leads to."""
    below = name.removeprefix(f"{folder.rstrip('/')}/")
    return below != name and shows(below) and has_suffix(name, suffixes)


def has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file is of the source's kind, and no object that a console shows as a folder."""
    return not name.endswith("/") and (not suffixes or name.lower().endswith(suffixes))


def is_shown(name: str, glob: str = "", *, hides_underscores: bool = True) -> bool:
    """Whether no part of a path is hidden; a glob that spells the hidden part out shows it.

    Args:
        name: the path.
        glob: that it matches.
        hides_underscores: whether _ hides files; it hides folders anyway.
    """
    *folders, file = name.split("/")
    hidden = [part for part in folders if part.startswith((".", "_"))]
    if file.startswith("." if not hides_underscores else (".", "_")):
        hidden.append(file)
    return all(part[0] in [each[:1] for each in glob.split("/")] for part in hidden)


def is_excluded(path: str, patterns: list[str]) -> bool:
    """Whether a glob matches the file's name, its path, or the end of that from some folder on."""
    return any(matches(path, each) for each in patterns)


def excludes_folder(folder: str, patterns: Collection[str]) -> bool:
    """Whether a pattern leaves out all that is in a folder, by its name or a path to it."""
    of_all = [each for each in patterns if each.endswith(ALL_OF_IT) or not GLOB.search(each)]
    return is_excluded(f"{folder}/{NO_NAME}", [each for each in of_all if "/" in each])


def matches(path: str, glob: str) -> bool:
    """Whether one does; it may be written as a source's path may, as a URL or a relative path.

    What names a folder, by a slash at its end or a path without a glob, matches all that is in it.
    """
    if "/" not in glob:
        return any(fnmatch.fnmatch(each, glob) for each in (path, path.rsplit("/", 1)[-1]))
    folder = glob.rstrip("/")
    globs = [glob] if folder == glob else []
    if folder != glob or not GLOB.search(glob):
        globs.append(f"{folder}/*")
    ends = (end for each in globs for end in (each, BEGINNING.sub("", each)))
    return any(fnmatch.fnmatch(f"/{path}", f"*/{end}") for end in ends)
