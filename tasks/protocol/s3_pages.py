"""Lists S3 page by page: fsspec's own listing would hold a kilobyte for each of millions."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any


def infos_in_pages(filesystem: Any, folder: str) -> Iterator[dict[str, Any]]:
    """Infos, as fsspec gives them, of all objects below a folder, or of the object it is.

    Raises:
        OSError: as s3fs says what S3 says.
    """
    bucket, key, _ = filesystem.split_path(folder.rstrip("/"))
    asked = {"Bucket": bucket, "Prefix": f"{key}/" if key else "", **filesystem.req_kw}
    is_empty, is_last = True, False
    while not is_last:
        page = filesystem.call_s3("list_objects_v2", **asked)
        for each in page.get("Contents", []):
            is_empty = False
            name = f"{bucket}/{each['Key']}"
            yield {**each, "Key": name, "name": name, "size": each["Size"], "type": "file"}
        is_last = not page.get("IsTruncated")
        asked["ContinuationToken"] = page.get("NextContinuationToken")
    if is_empty and key:
        with suppress(FileNotFoundError):
            info = filesystem.info(folder)
            if info["type"] == "file":
                yield info
