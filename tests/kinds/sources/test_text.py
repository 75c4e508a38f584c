"""Text files: one line a row, whatever the line holds."""

import gzip
import io
import lzma
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.sources import CsvSource, TextSource, text
from tasks.kinds.sources.compressed import Begun, DamagedFile
from tasks.kinds.sources.source import BadRow
from tasks.protocol.storage import FsspecStorage, open_storage
from tests.kinds.sources.reading import COMPRESS, read_all, write

BAD = b"k\xe9"
LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=9)


def texts(folder: Path, content: bytes, name: str = "a.txt", **fields: Any) -> list[Any]:
    write(folder, name, content)
    rows = read_all(TextSource(path=str(folder), **fields))
    return [row if isinstance(row, BadRow) else row["text"] for row in rows]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_reads_compressed_files(tmp_path: Path, suffix: str) -> None:
    assert texts(tmp_path, COMPRESS[suffix](b"a\nb\n"), f"a.txt{suffix}") == ["a", "b"]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_behind_links(tmp_path: Path, suffix: str) -> None:
    blob = write(tmp_path, "blob", COMPRESS[suffix](b"a\nb\n" * 9))
    (tmp_path / f"a.txt{suffix}").symlink_to(blob)
    rows = read_all(TextSource(path=str(tmp_path)))
    assert [row["text"] for row in rows] == ["a", "b"] * 9


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_whatever_follows_in_a_url(suffix: str) -> None:
    class OneByOne(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 1))

    file = OneByOne(COMPRESS[suffix](text.BOM + b"a\nb\n" * 9))
    path = f"https://host/a.txt{suffix}?X-Amz-Signature=1"
    assert b"".join(text.blocks(file, path)).removeprefix(text.BOM) == b"a\nb\n" * 9


@pytest.mark.parametrize("suffix", [each for each in COMPRESS if each])
@pytest.mark.parametrize("other", COMPRESS)
def test_an_ending_keeps_its_word(tmp_path: Path, suffix: str, other: str) -> None:
    [row] = texts(tmp_path, COMPRESS[other](b"a\n"), f"a.txt{suffix}")
    assert (row == "a") if suffix == other else ("damaged" in str(row.error))


def test_text_that_begins_almost_like_a_compressed_file(tmp_path: Path) -> None:
    assert texts(tmp_path, b"BZh9 is text\n") == ["BZh9 is text"]


@pytest.mark.parametrize("size", [-1, 0, 1, 3, 4, 100])
def test_a_file_begun_is_read_from_its_beginning(size: int) -> None:
    file = io.BytesIO(b"abcdefgh")
    begun = Begun(file, file.read(3))
    whole = io.BytesIO(b"abcdefgh")
    assert [begun.read(size) for _ in range(9)] == [whole.read(size) for _ in range(9)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (text.BOM, []),
        (text.BOM + b"a\n", ["a"]),
        (b"a\r\nb\rc\nd", ["a", "b", "c", "d"]),
        (b"\n\na\n", ["", "", "a"]),
        (b"a\r", ["a"]),
        ("a\u2028b\x0b\x85\n".encode(), ["a\u2028b\x0b\x85"]),
    ],
)
def test_line_ends(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    assert texts(tmp_path, content) == expected


def test_blank_lines_are_left_out_on_demand(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", b"\na\n \t\n" + BAD + b"\n\n b \n\n")
    rows = read_all(TextSource(path=str(tmp_path), skip_blank=True))
    assert [row if isinstance(row, BadRow) else row["text"] for row in rows] == [
        "a",
        rows[1],
        " b ",
    ]
    assert isinstance(rows[1], BadRow)


@given(
    st.lists(LINE.map(str.encode) | st.just(BAD), max_size=30),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.integers(1, 9),
)
def test_good_and_bad_are_all_lines_in_order(lines: list[bytes], end: bytes, size: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BYTES_PER_BLOCK", size + 3)
        found = texts(Path(folder), b"".join(line + end for line in lines))
    expected = [line if line == BAD else line.decode() for line in lines]
    if expected and isinstance(expected[0], str):
        expected[0] = expected[0].removeprefix("\ufeff")
    assert [BAD if isinstance(each, BadRow) else each for each in found] == expected


def test_a_bad_line_says_what_is_wrong(tmp_path: Path) -> None:
    [bad] = texts(tmp_path, BAD * 300)
    assert str(bad.error).startswith("the line is not UTF-8: byte 0xe9 at 1; set the files' enc")
    assert bad.raw.startswith("k\\xe9k")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_file_in_another_encoding_is_one_bad_row(
    tmp_path: Path, encoding: str, suffix: str
) -> None:
    content = "\ufeffone line\nanother\n".encode(encoding)
    [bad] = texts(tmp_path, COMPRESS[suffix](content), f"a.txt{suffix}")
    assert "convert it to UTF-8" in str(bad.error)


@pytest.mark.parametrize(("end", "written"), [("le", "utf-16"), ("be", "UTF16")])
def test_utf_16_that_does_not_say_so_is_one_bad_row_that_names_it(
    tmp_path: Path, end: str, written: str
) -> None:
    """Its lines would be rows with a NUL behind each letter."""
    content = "id,name\r\n1,x\r\n".encode(f"utf-16-{end}")
    [bad] = texts(tmp_path, content)
    assert f"set source.encoding: utf-16-{end} " in str(bad.error)
    assert texts(tmp_path, content, encoding=f"utf-16-{end}") == ["id,name", "1,x"]
    [bad] = texts(tmp_path, content, encoding=written)
    assert str(bad.error).endswith(": it has no byte order mark; set utf-16-le or utf-16-be")


@pytest.mark.parametrize("encoding", ["windows-1252", "shift_jis", "utf-16", "utf-16-le", "utf-8"])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_lines_of_another_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, size: int
) -> None:
    monkeypatch.setattr(text, "BYTES_PER_BLOCK", size)
    lines = ["kék", "naïve"] if encoding == "windows-1252" else ["日本", "カナ", "a"]
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    content = (mark + "\r\n".join(lines)).encode(encoding)
    assert texts(tmp_path, content, encoding=encoding) == lines


def test_what_another_encoding_has_not_is_a_bad_line_or_the_rest(tmp_path: Path) -> None:
    first, bad, last = texts(tmp_path, b"k\xe9k\n\x81\nb\n", encoding="windows-1252")
    assert (first, last) == ("kék", "b")
    problem = "is not windows-1252, as source.encoding says: byte 0x81 at 0"
    assert str(bad.error) == f"the line {problem}"
    csv = CsvSource(path=str(tmp_path), encoding="windows-1252", column_names=["a"], skip_lines=1)
    (tmp_path / "a.txt").rename(tmp_path / "a.csv")
    assert str(read_all(csv)[0].error) == f"the row {problem}"
    first, rest = texts(tmp_path, "kék\nb".encode("utf-16")[:-1], encoding="utf-16")
    assert (first, rest.is_rest) == ("kék", True)
    assert str(rest.error) == "the file is not utf-16, as source.encoding says"
    for unknown in ("windows-125", "rot13"):
        with pytest.raises(ValidationError, match=f"'{unknown}' is not a text encoding: use one"):
            TextSource(path=str(tmp_path), encoding=unknown)


@pytest.mark.parametrize("content", [b"PK\x03\x04" + bytes(20), b"\xd0\xcf\x11\xe0" + bytes(20)])
@pytest.mark.parametrize("encoding", [None, "latin-1"])
def test_a_file_that_is_no_text_is_one_bad_row(
    tmp_path: Path, content: bytes, encoding: str | None
) -> None:
    [bad] = texts(tmp_path, content, encoding=encoding)
    assert re.search("Excel.*: unpack it, or save it as text$", str(bad.error))


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_long_line_is_one_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(text, "LONGEST_LINE", 8)
    # A block is never longer than the longest line.
    monkeypatch.setattr(text, "BYTES_PER_BLOCK", min(size, 8))
    found = texts(tmp_path, b"12345678\n123456789\nb\n" + b"x" * 40 + b"\nc\n" + b"y" * 9)
    kinds = [each.raw[:1] if isinstance(each, BadRow) else each for each in found]
    assert kinds == ["12345678", "1", "b", "x", "c", "y"]


def test_a_cut_off_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = [f"{number:x}" * 50 for number in range(5_000)]
    data = gzip.compress("\n".join(lines).encode(), compresslevel=1)
    found = texts(tmp_path, data[:-9], "a.txt.gz")
    assert len(found) > 1_000
    assert found[:-1] == lines[: len(found) - 1]
    assert "damaged" in str(found[-1].error)


@pytest.mark.parametrize("zeros", [1, 512, 100_000])
def test_zeros_that_fill_a_gzip_file_up_are_no_damage(tmp_path: Path, zeros: int) -> None:
    member = gzip.compress("".join(f"{number}\n" for number in range(5_000)).encode())
    found = texts(tmp_path, member + bytes(zeros) + member + bytes(zeros), "a.txt.gz")
    assert found == [str(number) for number in range(5_000)] * 2


@pytest.mark.parametrize("suffix", [".xz", ".bz2"])
@pytest.mark.parametrize("zeros", [0, 4, 100_000])
def test_streams_may_follow_each_other(tmp_path: Path, zeros: int, suffix: str) -> None:
    """As compressors on several cores write them, or `cat`; one of them may be empty."""
    compress = COMPRESS[suffix]
    stream = compress("".join(f"{number}\n" for number in range(50_000)).encode())
    whole = b"".join(part + bytes(zeros) for part in [stream, compress(b""), stream])
    name = f"a.txt{suffix}"
    assert texts(tmp_path, whole, name) == [str(number) for number in range(50_000)] * 2


def test_a_python_without_bz2_reads_by_arrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = COMPRESS[".bz2"](b"a\nb\n")
    monkeypatch.setitem(sys.modules, "bz2", None)
    assert texts(tmp_path, content, "a.txt.bz2") == ["a", "b"]


def test_a_python_without_xz_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = lzma.compress(b"a\n")
    monkeypatch.setitem(sys.modules, "lzma", None)
    with pytest.raises(
        InvalidSpec, match=r"^source\.path: '.*a\.txt\.xz' is compressed with xz, which"
    ):
        texts(tmp_path, content, "a.txt.xz")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-30],
        lambda data: data[:30],
        lambda data: data[:-300] + bytes(300),
        lambda data: data + b"x",
        lambda data: data + b"no stream, and as long as one's header",
        lambda data: data + data[:40],
    ],
)
@pytest.mark.parametrize("suffix", [".xz", ".bz2"])
def test_a_file_of_damaged_streams_is_not_silently_short(
    tmp_path: Path, change: Callable[[bytes], bytes], suffix: str
) -> None:
    lines = [str(number) for number in range(5_000)]
    content = COMPRESS[suffix]("".join(f"{line}\n" for line in lines).encode())
    *found, bad = texts(tmp_path, change(content), f"a.txt{suffix}")
    assert isinstance(bad, BadRow)
    assert bad.is_rest
    assert "damaged" in str(bad.error)
    assert found == lines[: len(found)]


def test_what_is_not_compressed_is_one_bad_row(tmp_path: Path) -> None:
    [bad] = texts(tmp_path, b"plain\n", "a.txt.gz")
    assert "damaged" in str(bad.error)


@pytest.mark.parametrize("suffix", [each for each in COMPRESS if each])
def test_a_compressed_file_without_bytes_is_no_file_without_rows(
    tmp_path: Path, suffix: str
) -> None:
    """As an upload leaves that has failed."""
    [bad] = texts(tmp_path, b"", f"a.txt{suffix}")
    assert "is empty" in str(bad.error)
    assert texts(tmp_path, COMPRESS[suffix](b""), f"a.txt{suffix}") == []
    assert texts(tmp_path, b"", "a.txt") == []


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("error", [ConnectionResetError("gone"), TimeoutError(), OSError(5, "io")])
def test_storage_errors_are_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: OSError
) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise error

    source = TextSource(path=write(tmp_path, name, b"a"))
    storage, path = open_storage(source.paths[0])
    stat = storage.stat(path)
    assert stat is not None
    monkeypatch.setattr(FsspecStorage, "open", lambda self, path: Broken())
    with pytest.raises(type(error)):
        list(source.read(storage, source.split(storage, stat)[0], {}))


def test_compressed_files_come_in_blocks_as_large_as_others(tmp_path: Path) -> None:
    """Each costs its time; a read of as much would lose it all where the end is damaged."""
    content = os.urandom(2 << 20).hex().encode()
    data = gzip.compress(content)
    whole = [*text.blocks(io.BytesIO(data), "a.txt.gz")]
    assert (len(whole), b"".join(whole)) == (5, content)
    found: list[bytes] = []
    with pytest.raises(DamagedFile):
        found.extend(text.blocks(io.BytesIO(data[: len(data) // 2]), "a.txt.gz"))
    assert abs(len(content) // 2 - len(b"".join(found))) < 256 << 10
