"""Objects of S3 are read and moved with as few requests as there can be."""

import uuid
from collections.abc import Iterator

import pytest

from tasks.protocol import quick_objects
from tasks.protocol.storage import FsspecStorage, open_storage
from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import Fault, FaultyS3, Request, faulty_s3

pytestmark = pytest.mark.s3


@pytest.fixture
def proxy(s3: S3) -> Iterator[FaultyS3]:
    """Before the store; what a process remembers of it is forgotten."""
    quick_objects.kept.cache_clear()
    with faulty_s3(s3.endpoint_url) as proxy:
        yield proxy
    quick_objects.kept.cache_clear()


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
    with pytest.raises(FileNotFoundError, match=f"{folder}/b"):
        storage.read(f"{folder}/b")
    assert asked(proxy) == ["GET", "GET"]


def test_to_move_is_two(place: tuple[FsspecStorage, str], proxy: FaultyS3) -> None:
    storage, folder = place
    for _ in range(2):  # the second time there is nothing left to do
        storage.move(f"{folder}/a", f"{folder}/b")
    assert asked(proxy) == ["DELETE", "PUT", "PUT"]
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
