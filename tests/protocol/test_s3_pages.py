"""S3's listing page by page; tests/kinds/sources/test_listing_s3.py asks a server."""

from typing import Any, ClassVar

import pytest

from tasks.protocol.s3_pages import infos_in_pages

KEYS = ("in/a", "in/b/c", "in/d", "in/e", "in/f", "into", "other")


class Bucket:
    """Shows two objects a page, and remembers how often it was asked."""

    req_kw: ClassVar[dict[str, str]] = {"RequestPayer": "requester"}
    asked = 0

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def call_s3(self, method: str, **asked: Any) -> dict[str, Any]:
        assert (method, asked["Bucket"]) == ("list_objects_v2", "bucket")
        assert asked["RequestPayer"] == "requester"
        self.asked += 1
        keys = [key for key in KEYS if key.startswith(asked["Prefix"])]
        start = int(asked.get("ContinuationToken", 0))
        page: dict[str, Any] = {"IsTruncated": start + 2 < len(keys)}
        if found := keys[start : start + 2]:
            page["Contents"] = [{"Key": key, "Size": 9, "ETag": '"v"'} for key in found]
        if page["IsTruncated"]:
            page["NextContinuationToken"] = str(start + 2)
        return page

    def info(self, path: str) -> dict[str, Any]:
        if path.removeprefix("bucket/") not in KEYS:
            raise FileNotFoundError(path)
        return {"name": path, "size": 9, "type": "file"}


@pytest.mark.parametrize(
    ("folder", "wanted", "requests"),
    [
        ("bucket/in", KEYS[:5], 3),
        ("bucket/in/", KEYS[:5], 3),
        ("bucket/in/b", KEYS[1:2], 1),
        ("bucket/into", KEYS[5:6], 1),
        ("bucket/nothing", (), 1),
        ("bucket", KEYS, 4),
    ],
)
def test_every_page_is_asked_for_once(folder: str, wanted: tuple[str, ...], requests: int) -> None:
    bucket = Bucket()
    found = list(infos_in_pages(bucket, folder))
    assert [info["name"] for info in found] == [f"bucket/{key}" for key in wanted]
    assert all(info["type"] == "file" and info["size"] == 9 for info in found)
    assert bucket.asked == requests


def test_no_page_is_asked_for_before_the_one_before_is_used_up() -> None:
    bucket = Bucket()
    infos = infos_in_pages(bucket, "bucket/in")
    assert [next(infos)["name"], next(infos)["name"]] == ["bucket/in/a", "bucket/in/b/c"]
    assert bucket.asked == 1
