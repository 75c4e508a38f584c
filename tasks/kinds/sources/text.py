"""Rows from text files, one a line; and the streaming of lines that JSON Lines and CSV share."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import IO, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field

from tasks.kinds.sources.compressed import CODECS, DamagedFile, decompressed, read_block
from tasks.kinds.sources.encoded import EncodedSource, as_utf8
from tasks.kinds.sources.source import ROWS_PER_READ, BadRow, Read
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

LONGEST_LINE = 16 << 20
BYTES_PER_BLOCK = 1 << 20
WIDE, MOST_TIMES = 256, 8
"""For each so many columns a block is larger by itself, up to so many times: to make one takes a
while, however few rows it has."""
# A read that meets the damaged part of a file loses what it has decompressed before.
BYTES_PER_COMPRESSED_BLOCK = 64 << 10
RAW_CHARACTERS = 500
MOST_COLUMNS = 1 << 16
"""Of a row; each takes kilobytes, and to say that there is one takes two bytes."""
BOM = b"\xef\xbb\xbf"
OTHER_BOMS = (b"\xff\xfe", b"\xfe\xff")
"""Of UTF-16, and the first of UTF-32 too; no text in UTF-8 begins so."""
UNMARKED = re.compile(rb"(?P<le>(?:[^\0]\0){4})|(?P<be>(?:\0[^\0]){4})")
"""How UTF-16 begins without one, where its first letters are those of English."""
SAY_IT = (
    "set source.encoding: {} if the source has that field, or convert it to UTF-8, for example "
    "with iconv -f {} -t UTF-8"
)
NO_TEXT = {b"PK\x03\x04": "a ZIP archive or an Excel workbook", b"\xd0\xcf\x11\xe0": "of Excel"}
"""How files begin that bear the ending of text and are none, and what they are."""

NAME_IT = "set the files' encoding in source.encoding, such as windows-1252"


class BadLine(Exception):
    """A line is not what its file should hold."""


class LongLine(bytes):
    """The beginning of a line that is too long to be read."""


class TextSource(EncodedSource):
    """Lines of text files, as the column `text`."""

    model_config = ConfigDict(title="Lines of text")
    kind: Literal["text"] = "text"
    skip_blank: bool = Field(
        default=False, description="Leave out empty lines and lines of only spaces."
    )
    suffixes: ClassVar[tuple[str, ...]] = (".txt", *(f".txt{each}" for each in CODECS))
    reads_on: ClassVar[bool] = True

    def schema_of_rows(self, pins: dict[str, Any]) -> pa.Schema:
        """The same for all files."""
        return pa.schema([("text", pa.string())])

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the lines; one that is too long or not UTF-8 is a bad row."""
        with storage.open(shard.path) as file:
            lines = universal(blocks(file, shard.path, self.encoding))
            found = read_lines(lines, partial(text_rows, self.encoding))
            yield from without_blank(found) if self.skip_blank else found


def blocks(
    file: IO[bytes], path: str, encoding: str | None = None, num_columns: int = 1
) -> Iterator[bytes]:
    """A file's bytes as UTF-8, decompressed, without a byte order mark.

    Args:
        file: to be read.
        path: its own.
        encoding: of a file that does not say itself that it is UTF-8; None: that.
        num_columns: that its rows have.

    Raises:
        DamagedFile: a compressed file is cut off, or is not compressed that way; or a file is no
            text, or says itself that it is not UTF-8, or is not in the other encoding.
    """
    stream, codec = decompressed(file, path, CODECS)
    whole = BYTES_PER_BLOCK * min(1 + num_columns // WIDE, MOST_TIMES)
    size = BYTES_PER_COMPRESSED_BLOCK if codec else whole
    first, rest = read_block(stream, size), iter(partial(read_block, stream, size), b"")
    if codec:
        rest = gathered(rest, whole)
    for beginning, what in NO_TEXT.items():
        if first.startswith(beginning):
            raise DamagedFile(f"the file is {what}: unpack it, or save it as text")
    if encoding and not first.startswith(BOM):
        yield from as_utf8(chain([first], rest), encoding)
        return
    if first.startswith(OTHER_BOMS):
        raise DamagedFile(f"the file is UTF-16 or UTF-32: {SAY_IT.format('utf-16', 'UTF-16')}")
    if unmarked := UNMARKED.match(first):
        end = str(unmarked.lastgroup)
        way_out = SAY_IT.format(f"utf-16-{end}", f"UTF-16{end.upper()}")
        raise DamagedFile(f"the file is UTF-16 without a byte order mark: {way_out}")
    yield from chain([first.removeprefix(BOM)], rest)


def gathered(found: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Small blocks as larger ones: to make rows of one takes its time, however small it is.

    Args:
        found: the small ones.
        size: of a larger one, at least.

    Raises:
        DamagedFile: one cannot be read, and those before it can.
    """
    held = bytearray()
    try:
        for block in found:
            held += block
            if len(held) >= size:
                yield bytes(held)
                held.clear()
    except DamagedFile:
        if held:
            yield bytes(held)
        raise
    if held:
        yield bytes(held)


def universal(found: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks with every line end as a plain newline."""
    held = b""
    for block in found:
        data = held + block
        held = b"\r" if data.endswith(b"\r") else b""  # its newline may come with the next block
        if b"\r" not in data:
            yield data
            continue
        yield data.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if held:
        yield b"\n"


def without_first(lines: int, found: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks from behind so many lines on."""
    for block in found:
        while lines and (end := block.find(b"\n") + 1):
            block, lines = block[end:], lines - 1
        if not lines:
            yield block


def whole_lines(found: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines, each with its newline; a LongLine in place of one too long."""
    held, is_long = bytearray(), False
    for block in found:
        end = block.find(b"\n")
        if is_long or len(held) + (end if end >= 0 else len(block)) > LONGEST_LINE:
            is_long = end < 0
            held += block[: RAW_CHARACTERS if is_long else end]
            del held[RAW_CHARACTERS:]
            if is_long:
                continue
            yield LongLine(held)
            held, block = bytearray(), block[end + 1 :]
        cut = block.rfind(b"\n") + 1
        if cut:
            yield bytes(held) + block[:cut]
            held = bytearray()
        held += block[cut:]
    if is_long:
        yield LongLine(held)
    elif held:
        yield bytes(held) + b"\n"


def read_lines(found: Iterator[bytes], parse: Callable[[bytes], Iterator[Read]]) -> Iterator[Read]:
    """What `parse` makes of blocks of whole lines, and a bad row for what it cannot be given."""
    try:
        for lines in whole_lines(found):
            if isinstance(lines, LongLine):
                yield too_long(lines)
            else:
                yield from parse(lines)
    except DamagedFile as error:
        yield BadRow(error, is_rest=True)


def reads_of(table: pa.Table) -> Iterator[pa.Table]:
    """Rows as tables of a read's size."""
    for at in range(0, len(table), ROWS_PER_READ):
        yield table.slice(at, ROWS_PER_READ)


def bad_row(reason: str, line: bytes) -> BadRow:
    """A line that cannot be read, and why."""
    return BadRow(BadLine(reason), shortened(line))


def too_long(line: LongLine) -> BadRow:
    """A line of which only the beginning was kept."""
    return bad_row(f"the line is longer than {LONGEST_LINE >> 20} MiB", line)


def shortened(line: bytes) -> str:
    """The beginning of a line, for a person."""
    text = line[: RAW_CHARACTERS * 4].decode(errors="backslashreplace")
    return text.rstrip("\r\n")[:RAW_CHARACTERS]


def not_utf8(error: UnicodeDecodeError, encoding: str | None, way_out: str = NAME_IT) -> str:
    """What is wrong with a line's bytes, and what to do where nobody has named the encoding."""
    byte = f"byte 0x{error.object[error.start]:02x} at {error.start}"
    if encoding:
        return f"the line is not {encoding}, as source.encoding says: {byte}"
    return f"the line is not UTF-8: {byte}; {way_out}"


def text_rows(encoding: str | None, lines: bytes) -> Iterator[Read]:
    """Lines as rows; where the block is not UTF-8, its lines one by one."""
    try:
        yield from tables(lines.decode().split("\n")[:-1])
        return
    except UnicodeDecodeError:
        pass
    good: list[str] = []
    for line in lines.split(b"\n")[:-1]:
        try:
            good.append(line.decode())
        except UnicodeDecodeError as error:
            yield from tables(good)
            good = []
            yield bad_row(not_utf8(error, encoding), line)
    yield from tables(good)


def without_blank(found: Iterator[Read]) -> Iterator[Read]:
    """Rows but for those whose text is blank."""
    for read in found:
        if isinstance(read, BadRow):
            yield read
        elif len(rows := read.filter(pc.not_equal(pc.utf8_trim_whitespace(read["text"]), ""))):
            yield rows


def tables(lines: list[str]) -> Iterator[pa.Table]:
    """Lines as tables of a read's size."""
    for at in range(0, len(lines), ROWS_PER_READ):
        yield pa.table({"text": pa.array(lines[at : at + ROWS_PER_READ], pa.string())})
