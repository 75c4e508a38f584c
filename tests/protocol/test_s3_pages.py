"""S3's listing page by page; tests/kinds/sources/test_listing_s3.py asks a server."""

from typing import Any, ClassVar

import pytest

from tasks.protocol.s3_pages import infos_in_pages, infos_of_glob, is_glob_of_pages

KEYS = ("in/a", "in/b/c", "in/d", "in/e", "in/f", "into", "other")


def end_of(key: str) -> str:
    """A key up to its first slash, as S3 shows those behind a delimiter."""
    return "".join(key.partition("/")[:2])


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
        keys, begins = [key for key in KEYS if key.startswith(asked["Prefix"])], asked["Prefix"]
        if "Delimiter" in asked:
            keys = [*dict.fromkeys(begins + end_of(key.removeprefix(begins)) for key in keys)]
        start = int(asked.get("ContinuationToken", 0))
        page: dict[str, Any] = {"IsTruncated": start + 2 < len(keys)}
        if found := keys[start : start + 2]:
            objects = [key for key in found if not key.endswith("/")]
            page["Contents"] = [{"Key": key, "Size": 9, "ETag": '"v"'} for key in objects]
            page["CommonPrefixes"] = [{"Prefix": key} for key in found if key.endswith("/")]
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


@pytest.mark.parametrize(
    ("glob", "wanted", "requests"),
    [
        ("bucket/in/*", ("in/a", "in/b", "in/d", "in/e", "in/f"), 3),
        ("bucket/in/[de]", ("in/d", "in/e"), 3),
        ("bucket/i*", ("in", "into"), 1),
        ("bucket/in/**", (*KEYS[:1], "in/b", *KEYS[1:5]), 3),
        ("bucket/**/c", ("in/b/c",), 4),
        ("bucket/x*", (), 1),
    ],
)
def test_a_glob_is_looked_for_page_by_page(
    glob: str, wanted: tuple[str, ...], requests: int
) -> None:
    bucket = Bucket()
    assert is_glob_of_pages(glob)
    found = {info["name"]: info["type"] for info in infos_of_glob(bucket, glob)}
    assert sorted(found) == sorted(f"bucket/{name}" for name in wanted)
    assert {name for name, kind in found.items() if kind == "directory"} <= {
        "bucket/in",
        "bucket/in/b",
    }
    assert bucket.asked == requests


def test_no_page_is_asked_for_a_glob_before_the_one_before_is_used_up() -> None:
    bucket = Bucket()
    assert next(infos_of_glob(bucket, "bucket/in/**"))["name"] == "bucket/in/a"
    assert bucket.asked == 1


@pytest.mark.parametrize("glob", ["buck*/in", "bucket/*/c", "bucket/in/b*/c"])
def test_a_glob_of_folders_is_none_of_pages(glob: str) -> None:
    assert not is_glob_of_pages(glob)


def test_a_listing_that_breaks_off_is_no_shorter_one() -> None:
    """Some stores say so by 404, as of a bucket that is not there."""

    class BreaksOff(Bucket):
        def call_s3(self, method: str, **asked: Any) -> dict[str, Any]:
            if "ContinuationToken" in asked:
                raise FileNotFoundError("NoSuchBucket")
            return super().call_s3(method, **asked)

    with pytest.raises(ConnectionError, match="bucket/in/ broke off: NoSuchBucket"):
        list(infos_in_pages(BreaksOff(), "bucket/in"))
