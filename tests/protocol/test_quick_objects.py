"""Objects of S3 are read and moved with as few requests as there can be."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.protocol import quick_objects
from tasks.protocol.storage import FsspecStorage, open_storage
from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import Fault, FaultyS3, Request, faulty_s3

pytestmark = pytest.mark.s3


@pytest.fixture
def proxy(s3: S3) -> Iterator[FaultyS3]:
    """Before the store."""
    with faulty_s3(s3.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def place(s3: S3, proxy: FaultyS3) -> tuple[FsspecStorage, str]:
    """The store behind the proxy, and a folder with the object `a`."""
    options = {"endpoint_url": proxy.endpoint_url}
    storage, folder = open_storage(s3.url(uuid.uuid4().hex), options)
    storage.write(f"{folder}/a", b"1")
    proxy.seen.clear()
    return storage, folder


def asked(proxy: FaultyS3) -> list[str]:
    """Methods of the requests since."""
    return sorted(method for (method, _), times in proxy.seen.items() for _ in range(times))


def test_to_read_is_one_request(place: tuple[FsspecStorage, str], proxy: FaultyS3) -> None:
    storage, folder = place
    assert storage.read(f"{folder}/a") == b"1"
    assert asked(proxy) == ["GET"]
    with pytest.raises(FileNotFoundError, match=f"{folder}/b"):
        storage.read(f"{folder}/b")


def test_to_move_is_two(place: tuple[FsspecStorage, str], proxy: FaultyS3) -> None:
    storage, folder = place
    storage.move(f"{folder}/a", f"{folder}/b")
    assert asked(proxy) == ["DELETE", "PUT"]
    storage.move(f"{folder}/a", f"{folder}/b")  # again, as after a crash
    assert storage.read(f"{folder}/b") == b"1"
    assert storage.stat(f"{folder}/a") is None


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_what_fails_s3fs_does(
    place: tuple[FsspecStorage, str],
    proxy: FaultyS3,
    method: str,
) -> None:
    storage, folder = place

    def behave(request: Request) -> Fault | None:
        is_ours = "botocore" not in request.agent
        return Fault(400, "NotImplemented") if is_ours and request.method == method else None

    proxy.behave = behave
    for number in range(5):  # more often than it is tried
        storage.write(f"{folder}/{number}", b"1")
        storage.move(f"{folder}/{number}", f"{folder}/moved{number}")
        assert storage.read(f"{folder}/moved{number}") == b"1"
        assert storage.stat(f"{folder}/{number}") is None
    assert proxy.faults == quick_objects.MOST_FAILURES
    for trust in storage.quick.trust.values() if storage.quick else ():
        trust.rests_until = 0.0
    proxy.behave = lambda request: None
    proxy.seen.clear()
    storage.move(f"{folder}/moved0", f"{folder}/again")
    assert storage.read(f"{folder}/again") == b"1"
    assert asked(proxy) == ["DELETE", "GET", "PUT"], "it is tried again after a while"


@pytest.mark.parametrize("name", ["/lead", "trail/", "a//b"])
def test_no_object_is_taken_for_another_one(s3: S3, proxy: FaultyS3, name: str) -> None:
    """What reads quickly drops slashes of a key, and would find what lies there."""
    storage, bucket = open_storage(s3.url(""), {"endpoint_url": proxy.endpoint_url})
    wrong = "/".join(part for part in name.split("/") if part)
    storage.write(f"{bucket}/{wrong}", b"wrong")
    storage.filesystem.call_s3("put_object", Bucket=bucket, Key=name, Body=b"right")
    assert storage.read(f"{bucket}/{name}") == b"right"
    storage.move(f"{bucket}/{name}", f"{bucket}/moved/{name.strip('/')}")
    assert storage.read(f"{bucket}/{wrong}") == b"wrong"


@pytest.mark.parametrize(
    "path",
    [
        "arn:aws:s3:us-east-1:1234:accesspoint/name/key",
        "bucket--use1-az4--x-s3/key",
        "bucket",
        "bucket/",
        "s3://bucket//key",
    ],
)
def test_some_paths_are_left_to_s3fs(path: str) -> None:
    assert quick_objects.parts(path) is None


def test_large_objects_are_left_to_s3fs(
    place: tuple[FsspecStorage, str], proxy: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, folder = place
    monkeypatch.setattr(quick_objects, "LARGEST_BYTES", 0)
    assert storage.quick
    assert storage.quick.read(f"{folder}/a") is None
    assert storage.read(f"{folder}/a") == b"1"
    assert storage.quick.trust["read"].failures == 0


@pytest.mark.parametrize("name", ["AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "aws_endpoint"])
def test_with_variables_of_its_own_it_is_not_asked(
    s3: S3, proxy: FaultyS3, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "true")
    storage, _ = open_storage(s3.url(""), {"endpoint_url": proxy.endpoint_url})
    assert storage.quick is None


def test_a_profile_has_its_own_endpoint(
    s3: S3, proxy: FaultyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not that of the user who asks."""
    config = tmp_path / "config"
    config.write_text(
        "[default]\nendpoint_url = http://127.0.0.1:9\n"
        f"[profile team]\nendpoint_url = {proxy.endpoint_url}\nregion = eu-central-1\n"
        "aws_access_key_id = of-the-team\naws_secret_access_key = x\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    storage, folder = open_storage(s3.url(uuid.uuid4().hex), {"profile": "team"})
    storage.write(f"{folder}/a", b"1")
    proxy.seen.clear()
    proxy.keys.clear()
    assert storage.read(f"{folder}/a") == b"1"
    assert asked(proxy) == ["GET"]
    assert proxy.keys == {"of-the-team"}


def test_the_child_of_a_fork_asks_s3fs(place: tuple[FsspecStorage, str]) -> None:
    storage, folder = place
    storage.read(f"{folder}/a")
    assert storage.quick
    storage.quick.process -= 1  # as it finds it there
    assert storage.quick.read(f"{folder}/a") is None
    assert storage.read(f"{folder}/a") == b"1"
