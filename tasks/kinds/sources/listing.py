"""Lists what lies at a source's paths: each input once, by its canonical path."""

import fnmatch
import os
from typing import TYPE_CHECKING

from tasks.errors import InputNotFound
from tasks.protocol.storage import FsspecStorage, Stat, open_storage, stat_of

if TYPE_CHECKING:
    from tasks.kinds.sources.source import Source

GLOB = frozenset("*?[")


def list_inputs(source: "Source") -> tuple[FsspecStorage, list[Stat]]:
    """The storage a source reads from, and its inputs by path.

    Overlapping globs and links lead to one input; the same bytes at two paths are two.

    Raises:
        InputNotFound: nothing lies at a path, and `on_empty` is `fail`.
    """
    found: dict[str, Stat] = {}
    storage: FsspecStorage | None = None
    for url in source.paths:
        storage, path = open_storage(url, source.storage_options)
        stats = list_path(storage, path, source.suffixes)
        kept = [stat for stat in stats if not is_excluded(stat.path, source.exclude)]
        if not kept and source.on_empty == "fail":
            raise InputNotFound.at("source.path", url, nothing_there(source, stats))
        found.update((stat.path, stat) for stat in kept)
    assert storage is not None
    return storage, [found[path] for path in sorted(found)]


def nothing_there(source: "Source", stats: list[Stat]) -> str:
    """Why a path gave no input, and the way out."""
    if stats:
        return f"has {len(stats)} files, all of them left out by source.exclude {source.exclude}"
    wanted = f" ending in {', '.join(source.suffixes)}" if source.suffixes else ""
    return f"holds no file{wanted}; mend the path, or set source.on_empty: succeed"


def list_path(storage: FsspecStorage, path: str, suffixes: tuple[str, ...]) -> list[Stat]:
    """Inputs at one file, folder or glob; hidden and half-written files are not inputs."""
    filesystem = storage.filesystem
    filesystem.invalidate_cache()
    if GLOB & set(path):
        infos = filesystem.glob(path, detail=True)
        found = [info for info in infos.values() if info["type"] == "file"]
    else:
        try:
            infos = filesystem.find(path, detail=True)
        except FileNotFoundError:
            infos = {}
        if set(infos) == {path}:
            return [canonical(storage, infos[path])]  # named itself: whatever it is called
        found = [info for name, info in infos.items() if wanted(name[len(path) :], suffixes)]
    return [canonical(storage, info) for info in found]


def wanted(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file below a folder is an input."""
    if any(part.startswith((".", "_")) for part in name.split("/")):
        return False
    return not suffixes or name.lower().endswith(suffixes)


def canonical(storage: FsspecStorage, info: dict) -> Stat:
    """The input an info stands for; links are followed."""
    if storage.is_local and os.path.realpath(info["name"]) != info["name"]:
        info = storage.filesystem.info(os.path.realpath(info["name"]))
    return stat_of(info)


def is_excluded(path: str, patterns: list[str]) -> bool:
    """Whether a glob matches the whole path or the file's name."""
    name = path.rsplit("/", 1)[-1]
    return any(fnmatch.fnmatch(path, each) or fnmatch.fnmatch(name, each) for each in patterns)
