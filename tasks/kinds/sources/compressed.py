"""The bytes of files that may be compressed."""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any

import pyarrow as pa

from tasks.errors import InvalidSpec

CODECS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
# Not of three letters alone: a line of text may begin with BZh.
MAGIC = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<bz2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))|(?P<xz>\xfd7zXZ\0)"
    rb"|(?P<zstd>\x28\xb5\x2f\xfd)"
)
BYTES_OF_MAGIC = 10
BYTES_OF_STREAMS = 64 << 10
"""That are read at a time of a file compressed by xz or bz2."""


class DamagedFile(Exception):
    """A file cannot be read on from here: a compressed one, or one in another encoding."""


class Gzip(gzip.GzipFile):
    """Arrow's would take the zeros with which tapes and some tools fill a file up for damage."""

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes.

        Raises:
            DamagedFile: they cannot be had.
        """
        try:
            return super().read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            said = re.sub(r" 0x\w+ != 0x\w+", "", str(error))  # sums that tell nobody anything
            raise DamagedFile(f"the compressed file is damaged: {said}") from error


class Streams(io.RawIOBase):
    """One stream of xz or bz2 after another, as where files are put together.

    Arrow has no xz, and breaks at an empty stream of bz2; and Python's own files take whatever
    follows a stream for the end.
    """

    def __init__(self, file: IO[bytes], begin: Callable[[], Any], problem: type[Exception]) -> None:
        self.file, self.begin, self.problem = file, begin, problem
        self.stream = begin()

    def readable(self) -> bool:
        """It is; Python's buffers ask."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or a part of it; nothing at the end.

        Raises:
            DamagedFile: the bytes cannot be had.
        """
        while (data := self.some(len(buffer))) == b"":
            pass
        got = data or b""
        buffer[: len(got)] = got
        return len(got)

    def some(self, size: int) -> bytes | None:
        """So many of the next bytes at most, perhaps none as yet; None at the end.

        Raises:
            DamagedFile: they cannot be had.
        """
        given = b""
        if self.stream.eof:
            given = self.following()
            if not given:
                return None
            self.stream = self.begin()
        elif self.stream.needs_input:
            given = self.file.read(BYTES_OF_STREAMS)
            if not given:
                problem = "the compressed file is damaged: the file ends before its stream does"
                raise DamagedFile(problem)
        try:
            data: bytes = self.stream.decompress(given, size)
            return data
        except self.problem as error:
            raise DamagedFile(f"the compressed file is damaged: {error}") from error

    def following(self) -> bytes:
        """The first bytes of another stream, before which zeros may stand; none at the end."""
        found = self.stream.unused_data
        while not found.strip(b"\0") and (more := self.file.read(BYTES_OF_STREAMS)):
            found = more
        return found.lstrip(b"\0")


def xz(file: IO[bytes], path: str) -> Streams:
    """What is compressed by xz.

    Raises:
        InvalidSpec: this Python has none.
    """
    try:
        import lzma  # not all Pythons are built with it
    except ImportError as error:
        problem = "is compressed with xz, which this Python was built without: use another one, "
        problem += "here and on every node, or compress the file with something else"
        raise InvalidSpec.at("source.path", path, problem) from error
    return Streams(file, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ), lzma.LZMAError)


def bz2(file: IO[bytes]) -> Any:
    """What is compressed by bz2; where this Python has none, Arrow's."""
    try:
        from bz2 import BZ2Decompressor
    except ImportError:
        return pa.CompressedInputStream(pa.PythonFile(file, "r"), "bz2")
    return io.BufferedReader(Streams(file, BZ2Decompressor, OSError))


class Begun(io.RawIOBase):
    """A file whose beginning was read, from its beginning; not all that are read can be sought."""

    def __init__(self, file: IO[bytes], beginning: bytes) -> None:
        self.file, self.beginning = file, beginning

    def readable(self) -> bool:
        """It is; Arrow asks."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """As of the file."""
        if not self.beginning:
            return self.file.read(size)
        cut = len(self.beginning) if size < 0 else size
        data, self.beginning = self.beginning[:cut], self.beginning[cut:]
        if self.beginning or len(data) == size:
            return data
        return data + self.file.read(size if size < 0 else size - len(data))


def decompressed(file: IO[bytes], path: str, codecs: Mapping[str, str]) -> tuple[Any, str | None]:
    """A file's stream and what it is compressed with: as its ending says, else its first bytes.

    A link may lead to a file of another name, and a URL go on behind the ending.

    Raises:
        DamagedFile: it has no bytes, as after an upload that failed, and is to be compressed.
        InvalidSpec: nothing here can decompress it.
    """
    named = (codec for ending, codec in codecs.items() if path.lower().endswith(ending))
    codec, beginning = next(named, None), beginning_of(file)
    if codec and not beginning:
        raise DamagedFile(
            "the compressed file is empty; even without rows it would have some bytes"
        )
    if codec is None and (found := MAGIC.match(beginning)):
        codec = found.lastgroup
    stream: Any = Begun(file, beginning)
    if codec == "gzip":
        return Gzip(fileobj=stream), codec
    if codec == "xz":
        return io.BufferedReader(xz(stream, path)), codec
    if codec == "bz2":
        return bz2(stream), codec
    return pa.CompressedInputStream(pa.PythonFile(stream, "r"), codec) if codec else stream, codec


def beginning_of(file: IO[bytes]) -> bytes:
    """A file's first bytes, fewer only where it has no more; the web may bring them one by one."""
    data = read_block(file, BYTES_OF_MAGIC)
    while len(data) < BYTES_OF_MAGIC and (more := read_block(file, BYTES_OF_MAGIC - len(data))):
        data += more
    return data


def read_block(stream: Any, size: int) -> bytes:
    """The next bytes of a stream; none at its end."""
    try:
        data: bytes = stream.read(size)
        return data
    except OSError as error:
        # Arrow's own errors have no errno; a time-out has none either, but a class of its own.
        if error.errno is not None or type(error) is not OSError:
            raise
        raise DamagedFile(f"the compressed file is damaged: {error}") from error
