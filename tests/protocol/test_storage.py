"""The contract of storage, for a local disk and for object stores."""

import hashlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.protocol.local_files import temporary_path
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage, open_storage
from tests.s3_server import S3

Open = Callable[[], FsspecStorage]
PLACES = ["disk", pytest.param("s3", marks=pytest.mark.s3), "azure", "google"]


@pytest.fixture(params=PLACES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder of this test's own, which does not exist yet."""
    if request.param == "disk":
        return str(tmp_path / "folder")
    folder: str = request.getfixturevalue(request.param).url(uuid.uuid4().hex)
    return folder


@pytest.fixture
def options(url: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """What opening the folder takes."""
    stores = {"s3": "s3", "gs": "google"}
    name = stores.get(url.partition("://")[0])
    found: dict[str, str] = request.getfixturevalue(name).storage_options if name else {}
    return found


@pytest.fixture
def storage(url: str, options: dict[str, str]) -> FsspecStorage:
    """The storage under test."""
    return open_storage(url, options)[0]


@pytest.fixture
def other(url: str, options: dict[str, str]) -> FsspecStorage:
    """Another process's client: it shares nothing with ours."""
    return open_storage(url, {**options, "skip_instance_cache": True})[0]


@pytest.fixture
def folder(url: str, options: dict[str, str]) -> str:
    """The folder's path on its storage."""
    return open_storage(url, options)[1]


def identity(storage: FsspecStorage, path: str) -> str:
    stat = storage.stat(path)
    assert stat is not None
    return stat.identity


def names(stats: list[Stat], folder: str) -> list[str]:
    return [stat.path.removeprefix(f"{folder}/") for stat in stats]


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 40_000], ids=len)
def test_what_is_written_is_read(storage: FsspecStorage, folder: str, data: bytes) -> None:
    path = f"{folder}/deep/er/part-1.parquet"
    storage.write(path, data)
    assert storage.read(path) == data
    stat = storage.stat(path)
    assert stat is not None
    assert (stat.path, stat.size) == (path, len(data))
    assert storage.list(folder) == [stat]
    with storage.open(path) as file:
        assert file.read() == data


def test_a_write_replaces_the_whole(storage: FsspecStorage, folder: str) -> None:
    storage.write(f"{folder}/a", b"long content")
    storage.write(f"{folder}/a", b"short")
    assert storage.read(f"{folder}/a") == b"short"


def test_what_is_not_there(storage: FsspecStorage, folder: str) -> None:
    with pytest.raises(FileNotFoundError):
        storage.read(f"{folder}/a")
    assert storage.stat(f"{folder}/a") is None
    assert storage.list(folder) == []
    storage.delete(f"{folder}/a")
    storage.move(f"{folder}/a", f"{folder}/b")
    assert storage.stat(f"{folder}/b") is None
    assert storage.list(folder) == []


def test_list_is_sorted_and_goes_deep(storage: FsspecStorage, folder: str) -> None:
    there = ["b/c/d", "b.x", "a", "b/a", "é 1/=#%", "z+?*[0]"]
    for name in there:
        storage.write(f"{folder}/{name}", name.encode())
    storage.write(f"{folder}-not/a", b"")
    found = storage.list(folder)
    assert names(found, folder) == sorted(there)
    assert [storage.read(stat.path).decode() for stat in found] == sorted(there)
    assert found == [storage.stat(stat.path) for stat in found]
    assert names(storage.list(f"{folder}/b"), folder) == ["b/a", "b/c/d"]
    assert storage.stat(f"{folder}/b") is None


def test_list_leaves_out_what_is_half_written(storage: FsspecStorage, folder: str) -> None:
    storage.write(f"{folder}/a", b"whole")
    storage.write(temporary_path(f"{folder}/a"), b"ha")
    assert names(storage.list(folder), folder) == ["a"]


def test_readers_of_a_folder_pass_over_what_is_half_written(tmp_path: Path) -> None:
    """Else none could read an output on a disk of its own after a crash, until it is cleaned up."""
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    Path(temporary_path(str(tmp_path / "b.parquet"))).write_bytes(b"PAR1, and then no more")
    assert pq.read_table(tmp_path)["id"].to_pylist() == [1]


@pytest.mark.parametrize("name", ["host=web.tmp-3/a", "job.tmp-12", "a.tmp-12/b.tmp-x"])
def test_only_the_end_of_a_name_says_half_written(
    storage: FsspecStorage, folder: str, name: str
) -> None:
    storage.write(f"{folder}/{name}", b"whole")
    assert names(storage.list(folder), folder) == [name]


def test_folders_are_those_of_one_level(storage: FsspecStorage, folder: str) -> None:
    assert storage.folders(folder) == set()
    for name in ("b/c/d", "a/x", "file", "b/e"):
        storage.write(f"{folder}/{name}", b"1")
    assert storage.folders(folder) == {"a", "b"}


def test_a_move_to_another_disk(tmp_path: Path) -> None:
    storage, folder = open_storage(str(tmp_path))
    with TemporaryDirectory(dir="/dev/shm") as other:
        if os.stat(other).st_dev == os.stat(folder).st_dev:
            pytest.skip("/dev/shm is no disk of its own here")
        storage.write(f"{other}/a", b"whole")
        storage.move(f"{other}/a", f"{folder}/day=1/a")
        assert storage.read(f"{folder}/day=1/a") == b"whole"
        assert names(storage.list(folder), folder) == ["day=1/a"]
        assert os.listdir(f"{folder}/day=1") == ["a"]
        assert storage.list(other) == []
        storage.move(f"{other}/a", f"{folder}/day=1/a")  # again, as after a crash
        assert storage.read(f"{folder}/day=1/a") == b"whole"


def test_identity_changes_with_content(storage: FsspecStorage, folder: str) -> None:
    path = f"{folder}/a"
    storage.write(path, b"one")
    first = identity(storage, path)
    assert identity(storage, path) == first
    storage.write(path, b"two")
    assert identity(storage, path) != first


def test_move_and_delete(storage: FsspecStorage, folder: str) -> None:
    storage.write(f"{folder}/a", b"new")
    storage.write(f"{folder}/deep/b", b"old")
    for _ in range(2):
        storage.move(f"{folder}/a", f"{folder}/deep/b")
        assert names(storage.list(folder), folder) == ["deep/b"]
        assert storage.read(f"{folder}/deep/b") == b"new"
    for _ in range(2):
        storage.delete(f"{folder}/deep/b")
        assert storage.list(folder) == []


def test_a_folder_is_deleted_and_no_other_whose_name_is_like_it(
    storage: FsspecStorage, folder: str
) -> None:
    for name in ("z?1/x", "z?1/sub/y", "z11/x", "z*/x", "z"):
        storage.write(f"{folder}/{name}", b"1")
    for _ in range(2):
        storage.delete_folder(f"{folder}/z?1")
        assert names(storage.list(folder), folder) == ["z", "z*/x", "z11/x"]


def test_what_others_do_is_seen_at_once(
    storage: FsspecStorage, other: FsspecStorage, folder: str
) -> None:
    assert storage.filesystem is not other.filesystem
    a, b, c = (f"{folder}/sub/{name}" for name in "abc")
    assert (storage.list(folder), storage.stat(a), storage.list(f"{folder}/sub")) == ([], None, [])
    other.write(a, b"one")
    assert names(storage.list(folder), folder) == ["sub/a"]
    before = identity(storage, a)
    other.write(a, b"two!")
    assert identity(storage, a) != before
    assert storage.read(a) == b"two!"
    with storage.open(a) as file:
        assert file.read() == b"two!"
    other.write(b, b"")
    other.move(a, c)
    assert names(storage.list(f"{folder}/sub"), folder) == ["sub/b", "sub/c"]
    assert storage.stat(a) is None
    storage.move(a, b)
    other.delete(b)
    other.delete(c)
    assert (storage.list(folder), storage.stat(c)) == ([], None)
    with pytest.raises(FileNotFoundError):
        storage.read(c)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    storage, folder = open_storage(str(tmp_path))
    storage.write(f"{folder}/a", b"old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{folder}/a'"):
        storage.write(f"{folder}/a", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert storage.read(f"{folder}/a") == b"old"


def test_list_passes_over_what_vanishes_while_it_looks(tmp_path: Path) -> None:
    storage, folder = open_storage(str(tmp_path))
    storage.write(f"{folder}/a", b"")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert names(storage.list(folder), folder) == ["a"]


@pytest.mark.s3
@pytest.mark.parametrize("versioned", [False, True])
def test_identity_on_s3_is_the_etag_however_it_is_found(s3: S3, versioned: bool) -> None:
    bucket = f"bucket-{uuid.uuid4().hex}"
    storage, path = open_storage(f"s3://{bucket}/deep/a", s3.storage_options)
    storage.filesystem.mkdir(bucket)
    if versioned:
        status = {"Status": "Enabled"}
        storage.filesystem.call_s3(
            "put_bucket_versioning", Bucket=bucket, VersioningConfiguration=status
        )
    storage.write(path, b"one")
    storage.write(path, b"two")
    assert identity(storage, path) == hashlib.md5(b"two").hexdigest()
    for found in (bucket, f"{bucket}/deep", path):
        assert storage.list(found) == [storage.stat(path)]
    storage.delete(path)
    assert (storage.list(bucket), storage.stat(path)) == ([], None)


def test_a_folder_that_cannot_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, path = open_storage(str(tmp_path))
    storage.write(f"{path}/deep/a", b"a")
    scandir = os.scandir

    def broken(folder: str) -> Any:
        if str(folder).endswith("deep"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(PermissionError):
        storage.list(path)


def test_a_pipe_is_no_object(tmp_path: Path) -> None:
    storage, path = open_storage(str(tmp_path))
    storage.write(f"{path}/a", b"a")
    os.mkfifo(tmp_path / "pipe")
    assert [each.path for each in storage.list(path)] == [f"{path}/a"]
    assert storage.list(f"{path}/pipe") == []


CALLS: dict[str, Callable[[FsspecStorage], object]] = {
    "write": lambda storage: storage.write("bucket/x", b""),
    "read": lambda storage: storage.read("bucket/x"),
    "list": lambda storage: storage.list("bucket"),
    "stat": lambda storage: storage.stat("bucket/x"),
    "move": lambda storage: storage.move("bucket/x", "bucket/y"),
    "delete": lambda storage: storage.delete("bucket/x"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_store_that_does_not_answer_is_an_oserror(
    call: Callable[[FsspecStorage], object],
) -> None:
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b"}
    config = {"config_kwargs": {"retries": {"max_attempts": 0}}}
    storage, _ = open_storage("s3://bucket/x", {**options, **config})
    with pytest.raises(ConnectionError, match="EndpointConnectionError"):
        call(storage)
