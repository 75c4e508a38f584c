"""Lists S3 page by page: fsspec's own listing would hold a kilobyte for each of millions."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tasks.protocol.client_errors import refusal_of

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


def listed(filesystem: Any, bucket: str, key: str) -> Iterator[dict[str, Any]]:
    """Infos of all objects below a folder."""
    asked = {"Bucket": bucket, "Prefix": f"{key}/" if key else "", **filesystem.req_kw}
    is_last = False
    while not is_last:
        page = filesystem.call_s3("list_objects_v2", **asked)
        for each in page.get("Contents", []):
            name = f"{bucket}/{each['Key']}"
            yield {**each, "Key": name, "name": name, "size": each["Size"], "type": "file"}
        is_last = not page.get("IsTruncated")
        asked["ContinuationToken"] = page.get("NextContinuationToken")
