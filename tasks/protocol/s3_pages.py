"""Lists S3 page by page: fsspec's own listing would hold a kilobyte for each of millions."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from fsspec.utils import glob_translate

from tasks.protocol.client_errors import refusal_of
from tasks.protocol.object_stat import IsNeedless, unless_needless

MAGIC, SLASH = re.compile(r"[*?\[]"), re.compile("/")
ARCHIVED = ("GLACIER", "DEEP_ARCHIVE")
"""Storage classes whose objects have to be restored before they can be read."""


def is_archived(info: dict[str, Any]) -> bool:
    """Whether a listing says of an object that it lies in an archive; it may be restored by now."""
    return info.get("StorageClass") in ARCHIVED


def is_restored(filesystem: Any, path: str) -> bool:
    """Whether an archived object can be read now, which no listing says; True where it is gone."""
    bucket, key, _ = filesystem.split_path(path)
    try:
        found = filesystem.call_s3("head_object", Bucket=bucket, Key=key, **filesystem.req_kw)
    except FileNotFoundError:  # for the run to find out
        return True
    is_kept = found.get("StorageClass") not in ARCHIVED
    return is_kept or 'ongoing-request="false"' in found.get("Restore", "")


def infos_in_pages(filesystem: Any, folder: str) -> Iterator[dict[str, Any]]:
    """Infos, as fsspec gives them, of all objects below a folder, or of the object it is.

    Who may list nothing may still look at an object by its name, as in many a public bucket.

    Raises:
        OSError: as s3fs says what S3 says; names the folder where it is closed to this user.
    """
    bucket, key, _ = filesystem.split_path(folder.rstrip("/"))
    is_empty, refused = True, None
    with refusal_of(folder):
        try:
            for info in listed(filesystem, bucket, key):
                is_empty = False
                yield info
        except PermissionError as error:
            if not is_empty or not key:
                raise
            refused = error
        if is_empty and key:
            with suppress(FileNotFoundError):
                info = filesystem.info(folder)
                if info["type"] == "file":
                    yield info
                    return
        if refused:
            raise refused


def is_glob_of_pages(glob: str) -> bool:
    """Whether pages tell what a glob matches: it is one in its last part alone, or of any depth.

    Of others the folders are looked into that each part matches, and no more.
    """
    folder, stem = before_magic(glob)
    return bool(folder) and ("**" in glob or "/" not in glob[len(f"{folder}/{stem}") :])


def before_magic(glob: str) -> tuple[str, str]:
    """What stands before a glob's first pattern: folders, and how the next part begins."""
    folder, _, stem = MAGIC.split(glob, maxsplit=1)[0].rpartition("/")
    return folder, stem


def infos_of_glob(filesystem: Any, glob: str) -> Iterator[dict[str, Any]]:
    """Infos of the objects that such a glob matches, and of the folders.

    Raises:
        OSError: as s3fs says what S3 says; names the glob where it is closed to this user.
    """
    folder, stem = before_magic(glob)
    bucket, key, _ = filesystem.split_path(folder)
    begins = f"{key}/{stem}" if key else stem
    pattern, seen = re.compile(glob_translate(glob)), set[str]()
    with refusal_of(glob):
        for info in pages(filesystem, bucket, begins, delimiter="" if "**" in glob else "/"):
            name = info["name"]
            for above in (name[: at.start()] for at in SLASH.finditer(name, len(folder) + 1)):
                if above not in seen and pattern.match(above):
                    yield {"name": above, "size": 0, "type": "directory"}
                seen.add(above)
            if pattern.match(name):
                yield info


def infos_in_folder(
    filesystem: Any, is_needless: IsNeedless, folder: str
) -> Iterator[dict[str, Any]]:
    """Infos, as fsspec gives them, of the objects and folders in a folder.

    Raises:
        OSError: as s3fs says what S3 says; names the folder where it is closed to this user.
    """
    bucket, key, _ = filesystem.split_path(folder.rstrip("/"))
    with unless_needless(folder, is_needless), refusal_of(folder):
        yield from pages(filesystem, bucket, f"{key}/" if key else "", delimiter="/")


def listed(filesystem: Any, bucket: str, key: str) -> Iterator[dict[str, Any]]:
    """Infos of all objects below a folder."""
    return pages(filesystem, bucket, f"{key}/" if key else "")


def pages(
    filesystem: Any, bucket: str, begins: str, delimiter: str = ""
) -> Iterator[dict[str, Any]]:
    """Infos of objects whose keys begin so; of those behind a delimiter, of their folders.

    Raises:
        OSError: as s3fs says what S3 says; where that comes in the middle, never that nothing is
            there.
    """
    asked = {"Bucket": bucket, "Prefix": begins, **filesystem.req_kw}
    if delimiter:
        asked["Delimiter"] = delimiter
    is_last = False
    while not is_last:
        try:
            page = filesystem.call_s3("list_objects_v2", **asked)
        except FileNotFoundError as error:
            if "ContinuationToken" not in asked:
                raise
            raise ConnectionError(f"the listing of {bucket}/{begins} broke off: {error}") from error
        for each in page.get("Contents", []):
            name = f"{bucket}/{each['Key']}"
            yield {**each, "Key": name, "name": name, "size": each["Size"], "type": "file"}
        for each in page.get("CommonPrefixes", []):
            name = f"{bucket}/{each['Prefix'].rstrip('/')}"
            yield {"name": name, "size": 0, "type": "directory"}
        is_last = not page.get("IsTruncated")
        asked["ContinuationToken"] = page.get("NextContinuationToken")
