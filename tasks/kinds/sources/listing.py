"""Lists what lies at a source's paths: each input once, by its canonical path."""

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from fsspec.utils import glob_translate

from tasks.counted import counted
from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.sources.input_names import (
    endings,
    glob_in,
    has_suffix,
    is_below,
    is_excluded,
    is_shown_by,
    refuse_depth_in_name,
)
from tasks.kinds.sources.linked_files import WayThroughLinks, linked, without_links
from tasks.kinds.sources.wanted_files import WantedFiles, told
from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.object_stat import Info, Stat, is_no_file, stat_of
from tasks.protocol.s3_pages import is_archived
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.urls import is_web

if TYPE_CHECKING:
    from tasks.kinds.sources.source import Source

WEB_FOLDER = re.compile(r"https?://[^/?]*(/?$|/[^?]*(/$|[*\[]))")
MEND = "correct the path, or set source.on_empty: succeed"


@dataclass(frozen=True)
class Listing:
    """What lies at a source's paths."""

    storage: FsspecStorage
    """That it reads from."""
    inputs: Stats
    """By path."""
    archived: pa.ChunkedArray
    """Paths of those that lie in an archive of S3, and may have to be restored."""
    passed_over: Counter[str]
    """Files beside them that are no inputs for their endings, by these."""


def list_inputs(source: "Source") -> tuple[FsspecStorage, Stats]:
    """The storage a source reads from, and its inputs by path; raises what `listing_of` does."""
    listing = listing_of(source)
    return listing.storage, listing.inputs


def listing_of(source: "Source") -> Listing:
    """List a source's inputs.

    Overlapping globs and links lead to one input; the same bytes at two paths are two.

    Raises:
        InputNotFound: nothing lies at a path, and `on_empty` is `fail`.
        InvalidSpec: the paths lie on different filesystems, or a file's name is not UTF-8.
    """
    storage, _ = source.opened(source.paths[0])
    places = []
    for url in source.paths:
        other, path = source.opened(url)
        if other.filesystem != storage.filesystem:
            problem = f"and {source.paths[0]} are on different filesystems; run each separately"
            raise InvalidSpec.at("source.path", url, problem)
        places.append((url, path))
    lists = [*asked_at_once(partial(list_place, source, storage), places)]
    archived = [chunk for _, chunks, _ in lists for chunk in chunks.chunks]
    inputs = source.chosen(storage, Stats.by_path([found for found, _, _ in lists]))
    others = sum((each for _, _, each in lists), Counter[str]())
    return Listing(storage, inputs, pa.chunked_array(archived, pa.string()), others)


def list_place(
    source: "Source", storage: FsspecStorage, place: tuple[str, str]
) -> tuple[Stats, pa.ChunkedArray, Counter[str]]:
    """Inputs at one of the paths, paths of those in an archive, and files of other endings.

    Raises what `listing_of` does.

    Args:
        source: whose path.
        storage: where it leads.
        place: the path as the spec has it, and on the storage.
    """
    (url, path), wanted = place, source.wanted
    kept = not_excluded(source.found(storage, path, wanted), source.exclude)
    are_archived = bytearray()  # one byte for each of millions, and no name
    try:
        real_path = WayThroughLinks(storage)
        found = Stats.of(canonical(storage, info, real_path) for info in noted(kept, are_archived))
    except UnicodeEncodeError as error:
        problem = "is not UTF-8; rename the file, or leave it out with source.exclude"
        raise InvalidSpec.at("source.path", error.object, problem) from error
    if not len(found) and source.on_empty == "fail":
        num_files = sum(1 for _ in source.found(storage, path))
        why = None if num_files else source.why_empty(storage, path)
        others = f"; it has {told(wanted.passed_over)}" if wanted.passed_over else ""
        problem = why or f"{no_input(source, num_files, path)}{glob_meant(source, path)}{others}"
        raise InputNotFound.at("source.path", url, problem)
    archived = found.table["path"].filter(np.array(are_archived, np.bool_))
    return found, archived, wanted.passed_over


def noted(infos: Iterable[Info], are_archived: bytearray) -> Iterator[Info]:
    """Infos one by one; notes of each whether it lies in an archive."""
    for info in infos:
        are_archived.append(is_archived(info))
        yield info


def leads_to(source: "Source", path: str) -> bool:
    """Whether an input lies, or lay, at one of the source's paths; of tables nobody can say."""
    if source.holds != "file":
        return True
    for url in source.paths:
        storage, place = source.opened(url)
        place = without_links(storage, place)
        if path == place or path.startswith(f"{place}/"):
            return True
        if any(fnmatch.fnmatchcase(path, glob) for glob in (place, f"{place}/*")):
            return True
    return False


def not_excluded(infos: Iterable[Info], patterns: list[str]) -> Iterator[Info]:
    """Files that none of the patterns leaves out."""
    return (info for info in infos if not is_excluded(info["name"], patterns))


def no_input(source: "Source", num_files: int, path: str = "") -> str:
    """Why a path gave no input, and the way out."""
    if num_files:
        return f"has {counted(num_files, 'file')}, all left out by source.exclude {source.exclude}"
    if source.endings_wanted and glob_in(path) and not endings(path, source.endings_wanted):
        return f"matches no {source.holds}; {MEND}"
    wanted = f" ending in {', '.join(source.endings_wanted)}" if source.endings_wanted else ""
    by_glob = ", or use a glob for files with other endings" if wanted else ""
    return f"has no {source.holds}{wanted}; {MEND}{by_glob}"


def glob_meant(source: "Source", path: str) -> str:
    """How to write a path at which nothing lies, where its characters may be meant otherwise."""
    if source.holds != "file" or is_web(path):
        return ""
    brackets = "[" in path and "; in a glob, write [[] for a [ in a name"
    braces = "{" in path and "; {a,b} does not work in a glob: list each path"
    return f"{brackets or ''}{braces or ''}"


def nothing_there(source: "Source") -> str:
    """What a path at which nothing lies is to be told; of tables the place may well be there."""
    return f"does not exist; {MEND}" if source.holds == "file" else no_input(source, 0)


def refuse_unlistable(url: str) -> None:
    """Refuse a URL that would be a folder's of a web server, or a glob there, or no glob anywhere.

    Raises:
        ValueError: it would.
    """
    refuse_depth_in_name(url)
    if WEB_FOLDER.match(url):
        raise ValueError(
            "files on a web server cannot be listed: give the URL of each file, as a list if "
            "there are several, and write * and [ in a name as %2A and %5B"
        )


def list_path(storage: FsspecStorage, path: str, wanted: WantedFiles) -> Iterator[Info]:
    """Files at one file, folder or glob; hidden and half-written ones are no inputs.

    Raises:
        OSError: a folder cannot be listed, of which something might be wanted.
    """
    storage = linked(storage)
    storage.filesystem.invalidate_cache()
    if not glob_in(path) or storage.filesystem.exists(path):
        return list_folder(storage, path, wanted)
    folders: list[str] = []
    inputs = matched(storage, path, wanted, folders)
    if (first := next(inputs, None)) is not None:
        return chain([first], inputs)
    # A file of another kind beside folders, as a README, is not what was meant.
    wanted.passed_over.clear()
    return chain.from_iterable(list_folder(storage, name, wanted) for name in folders)


def matched(
    storage: FsspecStorage, glob: str, wanted: WantedFiles, folders: list[str]
) -> Iterator[Info]:
    """Inputs that a glob matches; once all are given, `folders` has the folders that it does."""
    suffixes = endings(glob, wanted.suffixes)
    for info in storage.glob(glob, partial(wanted.leaves_out, glob)):
        if not is_shown_by(glob, info["name"], wanted.shows):
            continue
        if info["type"] != "file":
            folders.append(info["name"])
        elif wanted.ends_well(info["name"], suffixes):
            yield info


def would_list(storage: FsspecStorage, path: str, name: str, wanted: WantedFiles) -> bool:
    """Whether `list_path` would find a file that is not there yet."""
    suffixes, shows = wanted.suffixes, wanted.shows
    if not glob_in(path) or storage.filesystem.exists(path):
        return is_below(path, name, suffixes, shows)
    pattern = re.compile(glob_translate(path))
    is_named = pattern.match(name) and is_shown_by(path, name, shows)
    if is_named and has_suffix(name, endings(path, suffixes)):
        return True
    parents = [name[: at.start()] for at in re.finditer("/", name)]
    folders = [each for each in parents if pattern.match(each) and is_shown_by(path, each, shows)]
    if not any(is_below(each, name, suffixes, shows) for each in folders):
        return False
    inputs = matched(linked(storage), path, wanted, [])
    return next(inputs, None) is None  # else no folder is looked into


def list_folder(storage: FsspecStorage, path: str, wanted: WantedFiles) -> Iterator[Info]:
    """Inputs below a folder; a file that is named itself, whatever it is called."""
    with suppress(FileNotFoundError):
        for info in storage.find(path, partial(wanted.leaves_out, path)):
            name = info["name"]
            if name != path and not wanted.shows(name[len(path) :]):
                continue
            if name == path or wanted.ends_well(name, wanted.suffixes):
                yield info


def canonical(storage: FsspecStorage, info: Info, real_path: WayThroughLinks) -> Stat:
    """The input an info stands for; links are followed.

    Raises:
        InputNotFound: a link leads nowhere.
        InvalidSpec: it is a pipe or a device, which may have no end and cannot be read twice.
    """
    name = info["name"]
    real = real_path(info)
    try:
        found = storage.filesystem.info(real) if info.get("islink") else {**info, "name": real}
        if is_no_file(found):
            problem = "is not a file but a pipe, a socket or a device: save its content in a "
            raise InvalidSpec.at("source.path", name, f"{problem}file, or add it to source.exclude")
        return stat_of(found)
    except FileNotFoundError as error:
        problem = (
            f"is a link to {real}, which does not exist; repair it, or add it to source.exclude"
        )
        raise InputNotFound.at("source.path", name, problem) from error
