"""The only door between the protocol and the world: six calls on whole objects.

Paths are absolute (`/data/out/part-1.parquet`, `bucket/out/part-1.parquet`). A write is whole or
absent. Deleting or moving what is not there is not an error, so that every call may be repeated.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from functools import partial
from operator import attrgetter
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

import fsspec

from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.azure_client import await_copy, found_by_adlfs, refuse_other_account
from tasks.protocol.client_errors import as_oserror, refusal_of
from tasks.protocol.google_client import prepare_gcsfs
from tasks.protocol.listed_folders import found_below, goes_by_folders, listed, matches_of
from tasks.protocol.local_files import is_half_written, new_file, rename
from tasks.protocol.object_stat import (
    Info,
    IsNeedless,
    Lying,
    Stat,
    find_local,
    is_no_file,
    is_none,
    modified_seconds,
    stat_if_there,
    stat_local,
    used_up,
)
from tasks.protocol.quick_objects import QuickObjects, quick_objects
from tasks.protocol.s3_pages import (
    before_magic,
    infos_in_folder,
    infos_in_pages,
    infos_of_glob,
    is_glob_of_pages,
)
from tasks.protocol.s3_throttling import retry_throttled
from tasks.protocol.urls import is_web, refuse_misread

AZURES = ("abfs://", "abfss://", "az://")
OBJECT_STORES = ("s3://", "s3a://", "gs://", *AZURES)
STORES = ("endpoint_url", "account_name", "host")
"""Options of filesystems that say on which store of a protocol's a path lies."""


class Storage(Protocol):
    """Whole-object storage; any object store and any local disk can be one.

    Every call raises OSError where the storage fails or does not answer.
    """

    def write(self, path: str, data: bytes) -> None:
        """Store `data` at `path`, whole or not at all."""

    def read(self, path: str) -> bytes:
        """Return the object's bytes; raise FileNotFoundError where there is none."""

    def list(self, folder: str) -> list[Stat]:
        """All objects below `folder`, at any depth, by path; empty where there is no folder."""

    def stat(self, path: str) -> Stat | None:
        """What is at `path`, or None."""

    def move(self, source: str, target: str) -> None:
        """Rename; nothing happens where `source` is gone."""

    def delete(self, path: str) -> None:
        """Remove; nothing happens where it is gone."""


class FsspecStorage:
    """Storage on a local disk or any fsspec filesystem."""

    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem
        protocol = filesystem.protocol
        protocols = (protocol,) if isinstance(protocol, str) else protocol
        self.is_local = "file" in protocols
        self.is_azure, self.is_google = "abfs" in protocols, "gs" in protocols
        self.is_s3 = "s3" in protocols
        self.has_pages = self.is_s3 and not filesystem.version_aware

    @property
    def quick(self) -> QuickObjects | None:
        """What has an object store's objects sooner than fsspec; None where nothing does."""
        return quick_objects(self.filesystem) if self.has_pages else None

    @property
    def store(self) -> str | None:
        """Address or account that options or URL name; None: the one that the protocol has."""
        given = self.filesystem.storage_options
        both = (given, given.get("client_kwargs") or {})
        found = next((each[name] for each in both for name in STORES if each.get(name)), None)
        return str(found).rstrip("/") if found else None

    def url_of(self, path: str) -> str:
        """A path as users write it: a plain one on a local disk, elsewhere with its scheme."""
        return path if self.is_local else str(self.filesystem.unstrip_protocol(path))

    @as_oserror()
    def write(self, path: str, data: bytes) -> None:
        """Locally: temporary file, fsync, rename. An object store's put is atomic by itself."""
        if not self.is_local:
            self.filesystem.pipe_file(path, data)
            return
        with new_file(path) as file:
            file.write(data)

    @as_oserror()
    def read(self, path: str) -> bytes:
        """Return the object's bytes."""
        if self.is_local:  # fsspec takes three times as long over a small file
            with open(path, "rb") as file:
                return file.read()
        if self.quick and (found := self.quick.read(path)):
            return found.data
        with refusal_of(path):
            data: bytes = self.filesystem.cat_file(path)
        return data

    def open(self, path: str) -> IO[bytes]:
        """Open for streaming reads."""
        with refusal_of(path):
            return self.filesystem.open(path, "rb")

    def open_in_parts(self, path: str) -> IO[bytes]:
        """Open for reads here and there: no more is fetched than is read."""
        with refusal_of(path):
            return self.filesystem.open(path, "rb", cache_type="none")

    @as_oserror()
    def list(self, folder: str) -> list[Stat]:
        """All objects below `folder`, by path, without half-written ones."""
        self.filesystem.invalidate_cache()
        try:
            known = (info for info in self.find(folder) if not is_no_file(info))
            whole = (info for info in known if not is_half_written(info["name"]))
            found = [stat for info in whole if (stat := stat_if_there(info))]
        except FileNotFoundError:
            return []
        return sorted(found, key=attrgetter("path"))

    def find(self, folder: str, is_needless: IsNeedless = is_none) -> Iterator[Info]:
        """Infos of objects below `folder`, or of the one it is; needless folders may be closed."""
        if self.is_local and os.path.isdir(folder):
            return find_local(self.filesystem, folder, is_needless)
        if self.has_pages:
            return infos_in_pages(self.filesystem, folder)
        if goes_by_folders(self.filesystem):
            return found_below(self.filesystem, folder, is_needless)
        if self.is_azure:
            return used_up(found_by_adlfs(self.filesystem, folder))
        return used_up(self.filesystem.find(folder, detail=True))

    def glob(self, pattern: str, is_needless: IsNeedless = is_none) -> Iterator[Info]:
        """Infos, as fsspec gives them, of what a glob matches, but in closed needless folders."""
        if self.has_pages and is_glob_of_pages(pattern):
            return infos_of_glob(self.filesystem, pattern)
        if before_magic(pattern)[0] and (self.is_s3 or goes_by_folders(self.filesystem)):
            of_each = infos_in_folder if self.has_pages else listed
            return matches_of(pattern, partial(of_each, self.filesystem, is_needless))
        return used_up(self.filesystem.glob(pattern, detail=True))

    @as_oserror()
    def folders(self, folder: str) -> set[str]:
        """Names of the folders in a folder, whatever is in them; none where it is not there."""
        self.filesystem.invalidate_cache()
        try:
            infos = self.filesystem.ls(folder, detail=True)
        except FileNotFoundError:
            return set()
        paths = {info["name"].rstrip("/") for info in infos if info["type"] == "directory"}
        return {path.rpartition("/")[2] for path in paths - {folder}}

    @as_oserror()
    def list_with_ages(self, folder: str) -> dict[str, Lying]:
        """All objects below `folder`, half-written ones too, and when they were written.

        Of what nobody knows that of, it was just now.
        """
        self.filesystem.invalidate_cache()
        try:
            found = {
                info["name"]: Lying(int(info["size"] or 0), modified_seconds(info) or time.time())
                for info in self.find(folder)
            }
        except FileNotFoundError:
            return {}
        return dict(sorted(found.items()))

    @as_oserror()
    def modified(self, path: str) -> float | None:
        """When an object was written, by this storage's clock; None where nobody knows."""
        self.filesystem.invalidate_cache()
        with suppress(FileNotFoundError):
            return modified_seconds(self.filesystem.info(path))
        return None

    @as_oserror()
    def stat(self, path: str) -> Stat | None:
        """What is at `path`, or None."""
        if self.is_local:
            return stat_local(path)
        self.filesystem.invalidate_cache()
        try:
            info = self.filesystem.info(path)
        except FileNotFoundError:
            return None
        return stat_if_there(info) if info["type"] == "file" else None

    @as_oserror()
    def move(self, source: str, target: str) -> None:
        """Rename; on an object store a server-side copy and a delete."""
        try:
            if self.is_local:
                rename(source, target)
                return
            if self.quick and self.quick.copy(source, target):
                self.filesystem.invalidate_cache(target)
            else:
                self.filesystem.cp_file(source, target)
                if self.is_azure:
                    await_copy(self.filesystem, target)
            self.filesystem.rm_file(source)
        except FileNotFoundError:
            return

    @as_oserror()
    def delete(self, path: str) -> None:
        """Remove; nothing happens where it is gone."""
        try:
            self.filesystem.rm_file(path)
        except FileNotFoundError:
            return

    @as_oserror()
    def delete_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it; nothing happens where it is gone."""
        self.filesystem.invalidate_cache()
        try:
            if self.is_local:
                self.filesystem.rm(folder, recursive=True)
                return
            # One by one: for all at once fsspec takes a * or ? in the name for a pattern.
            found = [info["name"] for info in self.find(folder)]
            for _ in asked_at_once(self.delete, found):
                pass
        except FileNotFoundError:
            return


def open_storage(
    url: str, storage_options: dict[str, Any] | None = None
) -> tuple[FsspecStorage, str]:
    """The storage that holds `url`, and the path of `url` on it.

    Raises:
        ValueError: no filesystem is known for the URL's scheme, or its package is missing; or
            the URL is none that leads to one place.
    """
    refuse_misread(url)
    filesystem, path = fsspec.core.url_to_fs(url, **client_options(url, storage_options or {}))
    if url.startswith(AZURES):
        refuse_other_account(filesystem)
    if is_web(url):
        from tasks.protocol.web_files import WebFiles

        _ = urlsplit(url).port  # raises where it is none
        return FsspecStorage(WebFiles(**filesystem.storage_options)), path
    return FsspecStorage(filesystem), path.rstrip("/")


def paths_in(storage: Storage, folder: str, suffix: str) -> list[str]:
    """Files below a folder with an ending, by path; none that file managers have left, as ._x."""
    found = [stat.path for stat in storage.list(folder) if stat.path.endswith(suffix)]
    return [path for path in found if not path.rpartition("/")[2].startswith(".")]


def client_options(url: str, storage_options: dict[str, Any]) -> dict[str, Any]:
    """The options as fsspec's filesystems take them: s3fs reads `endpoint_url` as is."""
    storage_options = deepcopy(storage_options)  # botocore writes into its own
    if url.startswith(("s3://", "s3a://")):
        retry_throttled()
    if url.startswith("gs://"):
        prepare_gcsfs()
    if url.startswith(OBJECT_STORES):
        # A cached listing would hide what another process has just written.
        return {"use_listings_cache": False, **storage_options}
    return storage_options
