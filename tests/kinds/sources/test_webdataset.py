"""WebDataset shards: every sample comes once, in order, and no archive is silently short."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import AUDIO, IMAGE, is_encoded
from tasks.kinds.sources import WebdatasetSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.kinds.sources.tar_reading import archive
from tasks.kinds.sources.tar_reading.archive import DamagedTar
from tasks.kinds.sources.tar_reading.samples import Sample, samples
from tests.kinds.archives import Files, save, tar
from tests.kinds.sources.reading import read_all
from tests.kinds.sources.test_parquet import BreakingFile

NAMES = ["a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tbz2", "a.tar.xz", "a.txz"]


def source(folder: Path, **fields: Any) -> WebdatasetSource:
    return WebdatasetSource(path=str(folder), **fields)


def digits(count: int) -> Files:
    return {
        f"{at:03}.{ending}": content
        for at in range(count)
        for ending, content in (("cls", f"{at % 10}".encode()), ("jpg", b"jpeg %d" % at))
    }


def expected(count: int) -> list[dict[str, Any]]:
    return [{"key": f"{at:03}", "cls": at % 10, "image": b"jpeg %d" % at} for at in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_rows_in_order(tmp_path: Path, name: str) -> None:
    count = 3_000 if name == "a.tar" else 300
    save(tmp_path, name, digits(count))
    assert read_all(source(tmp_path)) == expected(count)


@pytest.mark.parametrize("name", NAMES)
def test_shards_behind_links(tmp_path: Path, name: str) -> None:
    blob = save(tmp_path, name, digits(3)).rename(tmp_path / "blob")
    (tmp_path / name).symlink_to(blob)
    assert read_all(source(tmp_path)) == expected(3)


def test_types_by_ending(tmp_path: Path) -> None:
    files = {
        "in/a.PNG": b"png",
        "in/a.seg.png": b"mask",
        "in/a.flac": b"flac",
        "in/a.json": b'{"size": 3}',
        "in/a.npy": b"\x93NUMPY",
        "in/b.txt": "grün".encode(),
        "__meta__/x.json": b"{}",
        "in/README": b"no sample's",
        "in/._a.png": b"nor this",
    }
    save(tmp_path, "a.tar", files)
    first, second = read_all(source(tmp_path))
    assert first == {
        "key": "in/a",
        "image": b"png",
        "seg.png": b"mask",
        "audio": b"flac",
        "json": '{"size": 3}',
        "npy": b"\x93NUMPY",
        "txt": None,
    }
    assert {name: value for name, value in second.items() if value} == {
        "key": "in/b",
        "txt": "grün",
    }
    storage, (stat,) = list_inputs(source(tmp_path))
    pins = source(tmp_path).pin(storage, [stat])
    (shard,) = source(tmp_path).split(storage, stat)
    (read,) = source(tmp_path, sampling_rate=8_000).read(storage, shard, pins)
    assert not isinstance(read, BadRow)
    images = [each.name for each in read.schema if is_encoded(each, IMAGE)]
    assert images == ["image", "seg.png"]
    assert is_encoded(read.schema.field("audio"), AUDIO)
    assert read.schema.field("audio").metadata[b"sampling_rate"] == b"8000"


def test_columns_that_are_asked_for(tmp_path: Path) -> None:
    save(tmp_path, "a.tar", {**digits(2), "x.weights": b"what is this", "x.cls": b"7"})
    rows = read_all(source(tmp_path, columns=["cls"]))
    assert rows == [
        {"key": "000", "cls": 0},
        {"key": "001", "cls": 1},
        {"key": "x", "cls": 7},
    ]
    storage, stats = list_inputs(source(tmp_path))
    with pytest.raises(InvalidSpec, match=r"\['png'\] is in none .* key, cls, image, weights"):
        source(tmp_path, columns=["png", "cls"]).pin(storage, stats)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"b.cls": b"seven"}, ", not a whole number"),
        ({"b.cls": b"2026_01"}, ", not a whole number"),
        ({"b.cls": b"9" * 30}, "contains b'9999"),
        ({"b.txt": b"\xff"}, ", not text in UTF-8"),
        ({"b.jpg": b"1", "b.png": b"2"}, "two files are for the column 'image'"),
        ({"b.key": b"k"}, r"\.key has no column"),
        ({"b.__x": b"k"}, r"\.__x has no column"),
    ],
)
def test_a_sample_that_does_not_fit_is_a_bad_row(tmp_path: Path, files: Files, reason: str) -> None:
    good = {"a.cls": b"1", "a.txt": b"t", "a.jpg": b"j"}
    last = {name.replace("a.", "c."): content for name, content in good.items()}
    save(tmp_path, "a.tar", {**good, **files, **last})
    first, bad, third = read_all(source(tmp_path))
    assert (first["key"], third["key"]) == ("a", "c")
    assert bad.raw == "b"
    with pytest.raises(ValueError, match=reason):
        raise bad.error


def test_an_ending_that_comes_late_is_a_bad_row(tmp_path: Path) -> None:
    save(tmp_path, "a.tar", {**digits(120), "z.depth": b"x"})
    *rows, bad = read_all(source(tmp_path))
    assert rows == expected(120)
    assert "set source.columns" in str(bad.error)


def test_files_of_a_sample_that_lie_apart_are_no_rows_of_their_own(tmp_path: Path) -> None:
    """As tar packs a folder, in its order on disk: each half would lack what the other one has."""
    apart = {"a.cls": b"1", "b.cls": b"2", "b.jpg": b"b", "c.jpg": b"c", "a.jpg": b"a"}
    save(tmp_path, "a.tar", {**apart, "c.json": b"{}", "c.cls": b"3"})
    first, *rows = read_all(source(tmp_path, columns=["cls", "image"]))
    assert first == {"key": "a", "cls": 1, "image": None}
    assert rows[:2] == [
        {"key": "b", "cls": 2, "image": b"b"},
        {"key": "c", "cls": None, "image": b"c"},
    ]
    for row, key in zip(rows[2:], "ac", strict=True):
        assert isinstance(row, BadRow)
        assert f"other files of the sample '{key}' came earlier" in str(row.error)
        assert "tar --sort=name" in str(row.error)


def test_samples_that_share_a_key_are_rows_each(tmp_path: Path) -> None:
    """Archives that were made of several have such; a file that is optional may lack in both."""
    whole = [("a.cls", b"1"), ("a.txt", b"x")]
    parts = [*whole, ("b.cls", b"2"), *whole, ("b.cls", b"3"), ("c.txt", b""), ("b.cls", b"4")]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in parts:
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    (tmp_path / "a.tar").write_bytes(stream.getvalue())
    rows = read_all(source(tmp_path))
    assert [row["key"] for row in rows] == ["a", "b", "a", "b", "c", "b"]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_a_file_too_large_for_a_value_costs_its_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(archive, "LARGEST_FILE", 1_000)
    save(tmp_path, name, {"a.bin": bytes(1_000), "b.bin": bytes(1_001), "c.bin": bytes(1)})
    first, bad, last = read_all(source(tmp_path))
    assert (first["key"], last["key"]) == ("a", "c")
    assert str(bad.error) == "the file .bin has 1,001 bytes; at most 1,000 are read"


def test_links_are_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as packed:
        (tmp_path / "a.jpg").write_bytes(b"jpeg")
        (tmp_path / "b.jpg").hardlink_to(tmp_path / "a.jpg")
        for name in ("a.jpg", "b.jpg"):
            packed.add(tmp_path / name, name)
    good, bad = read_all(source(tmp_path))
    assert good == {"key": "a", "image": b"jpeg"}
    assert "is a link" in str(bad.error)


@given(st.data())
def test_wherever_it_is_cut_off_what_is_missing_shows(data: st.DataObject) -> None:
    files = {f"{at}.{end}": bytes([at] * 400 * at) for at in range(5) for end in ("bin", "txt")}
    whole = tar(files)
    end = len(whole.rstrip(b"\0")) // 512 * 512
    cut = data.draw(st.integers(0, end))
    *found, last = samples(io.BytesIO(whole[:cut]), "a.tar", lambda ending: True)
    assert isinstance(last, DamagedTar)
    complete = [each for each in found if isinstance(each, Sample)]
    assert len(complete) == len(found)
    for at, sample in enumerate(complete):
        content = bytes([at] * 400 * at)
        assert sample == Sample(str(at), (("bin", content), ("txt", content)))


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.xz"])
def test_a_shard_that_is_cut_off(tmp_path: Path, name: str) -> None:
    import random

    files = {f"{at}.bin": random.Random(at).randbytes(50_000) for at in range(20)}
    file = save(tmp_path, name, files)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    save(tmp_path, "b.tar", {"x.bin": b"good"})
    *rows, bad, other = read_all(source(tmp_path))
    assert 8 <= len(rows) <= 10
    assert [row["bin"] for row in rows] == [*files.values()][: len(rows)]
    assert f"the last sample begun is '{len(rows)}'" in str(bad.error)
    assert other == {"key": "x", "bin": b"good"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cut off or damaged"),
        (b"hello" * 500, "cut off or damaged"),
        (tar(digits(1)) + tar(digits(1)), "has data after its end"),
        (tar(digits(4)).replace(b"002.cls", b"xxx.cls"), "bad checksum"),
    ],
    ids=["empty", "text", "joined", "changed"],
)
def test_damage(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    *rows, bad = read_all(source(tmp_path))
    assert rows == expected(len(rows))
    assert reason in str(bad.error)


def test_an_archive_of_nothing_has_no_rows(tmp_path: Path) -> None:
    save(tmp_path, "a.tar", {})
    assert read_all(source(tmp_path)) == []


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), ConnectionError("reset"), TimeoutError("slow")]
)
def test_storage_errors_are_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, name: str
) -> None:
    import random

    save(tmp_path, name, {"a.bin": random.Random(0).randbytes(200_000)})
    storage, (stat,) = list_inputs(source(tmp_path))
    (shard,) = source(tmp_path).split(storage, stat)
    monkeypatch.setattr(storage, "open", lambda path: BreakingFile(Path(path), error))
    with pytest.raises(type(error), match=str(error.args[-1])):
        list(source(tmp_path).read(storage, shard, {"columns": ["bin"]}))
