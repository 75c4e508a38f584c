"""Lists what lies at a source's paths: each input once, by its canonical path."""

import fnmatch
import os
import re
from typing import TYPE_CHECKING, Any

from tasks.errors import InputNotFound, InvalidSpec
from tasks.protocol.storage import FsspecStorage, Stat, stat_of

if TYPE_CHECKING:
    from tasks.kinds.sources.source import Source

GLOB = re.compile(r"[*?\[]")
Infos = dict[str, dict[str, Any]]


def list_inputs(source: "Source") -> tuple[FsspecStorage, list[Stat]]:
    """The storage a source reads from, and its inputs by path.

    Overlapping globs and links lead to one input; the same bytes at two paths are two.

    Raises:
        InputNotFound: nothing lies at a path, and `on_empty` is `fail`.
        InvalidSpec: the paths lie on different filesystems.
    """
    storage, _ = source.opened(source.paths[0])
    found: dict[str, Stat] = {}
    for url in source.paths:
        other, path = source.opened(url)
        if other.filesystem != storage.filesystem:
            problem = f"and {source.paths[0]} lie on different filesystems; give each its own run"
            raise InvalidSpec.at("source.path", url, problem)
        infos = source.found(storage, path)
        num_files, num_kept = len(infos), 0
        while infos:  # of millions of files what the listing says is let go one by one
            name, info = infos.popitem()
            if not is_excluded(name, source.exclude):
                stat = canonical(storage, info)
                found[stat.path] = stat
                num_kept += 1
        if not num_kept and source.on_empty == "fail":
            raise InputNotFound.at("source.path", url, nothing_there(source, num_files))
    return storage, source.chosen(storage, [found[path] for path in sorted(found)])


def nothing_there(source: "Source", num_files: int) -> str:
    """Why a path gave no input, and the way out."""
    if num_files:
        return f"has {num_files} files, all of them left out by source.exclude {source.exclude}"
    wanted = f" ending in {', '.join(source.endings_wanted)}" if source.endings_wanted else ""
    return f"holds no {source.holds}{wanted}; mend the path, or set source.on_empty: succeed"


def list_path(storage: FsspecStorage, path: str, suffixes: tuple[str, ...]) -> Infos:
    """Files at one file, folder or glob; hidden and half-written ones are no inputs."""
    storage.filesystem.invalidate_cache()
    special = GLOB.search(path)
    if not special or storage.filesystem.exists(path):
        return list_folder(storage, path, suffixes)
    found: Infos = storage.filesystem.glob(path, detail=True)
    fixed = path.rfind("/", 0, special.start())
    shown = {name: info for name, info in found.items() if is_shown(name[fixed:], path[fixed:])}
    files = {name: info for name, info in shown.items() if info["type"] == "file"}
    if files:
        any_name = not path.rsplit("/", 1)[-1].strip("*")
        wanted = suffixes if any_name else ()
        return {name: info for name, info in files.items() if has_suffix(name, wanted)}
    folders = [list_folder(storage, name, suffixes) for name in shown]
    return {name: info for folder in folders for name, info in folder.items()}


def list_folder(storage: FsspecStorage, path: str, suffixes: tuple[str, ...]) -> Infos:
    """Inputs below a folder; a file that is named itself, whatever it is called."""
    try:
        infos: Infos = storage.find(path)
    except FileNotFoundError:
        return {}
    if infos.keys() == {path}:
        return infos
    return {
        name: info
        for name, info in infos.items()
        if is_shown(name[len(path) :]) and has_suffix(name, suffixes)
    }


def has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file is of the source's kind, and no object that a console shows as a folder."""
    return not name.endswith("/") and (not suffixes or name.lower().endswith(suffixes))


def is_shown(name: str, glob: str = "") -> bool:
    """Whether no part of a path is hidden; a glob that spells the hidden part out shows it."""
    hidden = [part for part in name.split("/") if part.startswith((".", "_"))]
    return all(part[0] in [each[:1] for each in glob.split("/")] for part in hidden)


def canonical(storage: FsspecStorage, info: dict[str, Any]) -> Stat:
    """The input an info stands for; links are followed.

    Raises:
        InputNotFound: a link leads nowhere.
    """
    name = info["name"]
    real = os.path.realpath(name) if storage.is_local else name
    if real == name:
        return stat_of(info)
    try:
        return stat_of(storage.filesystem.info(real))
    except FileNotFoundError as error:
        problem = f"is a link to {real}, which is not there; mend it, or name it in source.exclude"
        raise InputNotFound.at("source.path", name, problem) from error


def is_excluded(path: str, patterns: list[str]) -> bool:
    """Whether a glob matches the whole path or the file's name."""
    name = path.rsplit("/", 1)[-1]
    return any(fnmatch.fnmatch(path, each) or fnmatch.fnmatch(name, each) for each in patterns)
