"""Files that are one row each, on a disk and on S3."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from tasks.kinds import column_types
from tasks.kinds.sources import AudioSource, BinarySource, ImagesSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import Source
from tasks.kinds.sources.whole_file import LARGEST_FILE
from tasks.protocol.storage import open_storage
from tests.kinds.sources.reading import read_all
from tests.s3_server import S3

IMAGES = ["a.png", "b.JPG", "deep/c.webp", "deep/d.tiff", "e.jfif", "f.avif"]
OTHERS = ["notes.txt", "deep/model.bin"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    for name in [*IMAGES, *OTHERS, ".hidden.png"]:
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_images_stay_encoded(folder: Path) -> None:
    rows = read_all(ImagesSource(path=str(folder)))
    assert rows == [{"path": f"{folder}/{name}", "image": name.encode()} for name in IMAGES]


def test_binary_takes_every_file(folder: Path) -> None:
    rows = read_all(BinarySource(path=str(folder)))
    names = sorted([*IMAGES, *OTHERS])
    assert rows == [{"path": f"{folder}/{name}", "bytes": name.encode()} for name in names]


def test_binary_takes_files_with_the_endings_asked_for(folder: Path) -> None:
    rows = read_all(BinarySource(path=str(folder), endings=[".JPG", ".txt"]))
    assert [row["path"] for row in rows] == [f"{folder}/b.JPG", f"{folder}/notes.txt"]


def test_each_file_is_a_shard_of_one_row(folder: Path) -> None:
    source = ImagesSource(path=str(folder))
    storage, stats = list_inputs(source)
    shards = [shard for stat in stats for shard in source.split(storage, stat)]
    assert [shard.rows for shard in shards] == [1] * len(IMAGES)
    assert source.one_row_per_file
    (read,) = source.read(storage, shards[0], {})
    assert isinstance(read, pa.Table)
    assert column_types.is_encoded(read.schema.field("image"), column_types.IMAGE)


@pytest.mark.parametrize("kind", [AudioSource, BinarySource, ImagesSource])
def test_a_file_too_large_for_a_value_is_a_bad_row(tmp_path: Path, kind: type[Source]) -> None:
    name = f"a{(*kind.suffixes, '.bin')[0]}"
    with (tmp_path / name).open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    [bad] = read_all(kind(path=str(tmp_path)))
    assert str(bad.error).startswith("the file has 1,073,741,825 bytes; at most 1,073,741,824")


def test_a_file_that_is_gone_raises(folder: Path) -> None:
    source = ImagesSource(path=str(folder))
    storage, stats = list_inputs(source)
    (shard,) = source.split(storage, stats[0])
    Path(shard.path).unlink()
    with pytest.raises(FileNotFoundError):
        list(source.read(storage, shard, {}))


@pytest.mark.s3
def test_on_s3(s3: S3) -> None:
    storage, folder = open_storage(s3.url(uuid4().hex), s3.storage_options)
    put = storage.filesystem.call_s3
    # Consoles show a folder by an empty object whose name ends with a slash.
    for marker in ("", "deep/"):
        key = f"{folder}/{marker}".removeprefix(f"{s3.bucket}/")
        put("put_object", Bucket=s3.bucket, Key=key, Body=b"")
    for name in [*IMAGES, *OTHERS]:
        storage.write(f"{folder}/{name}", name.encode())
    found = {}
    for path in (folder, f"{folder}/", f"{folder}/**"):
        source = BinarySource(path=f"s3://{path}", storage_options=s3.storage_options)
        found[path] = read_all(source)
    names = sorted([*IMAGES, *OTHERS])
    expected = [{"path": f"s3://{folder}/{name}", "bytes": name.encode()} for name in names]
    assert list(found.values()) == [expected] * 3


@pytest.mark.s3
def test_many_threads_read_at_once(s3: S3) -> None:
    storage, folder = open_storage(s3.url(uuid4().hex), s3.storage_options)
    for number in range(64):
        storage.write(f"{folder}/{number:02}.png", f"{number}".encode())
    source = ImagesSource(path=f"s3://{folder}", storage_options=s3.storage_options)
    storage, stats = list_inputs(source)
    shards = [shard for stat in stats for shard in source.split(storage, stat)]
    with ThreadPoolExecutor(16) as pool:
        reads = list(pool.map(lambda shard: next(source.read(storage, shard, {})), shards))
    found = [read["image"][0].as_py() for read in reads if isinstance(read, pa.Table)]
    assert found == [f"{number}".encode() for number in range(64)]
