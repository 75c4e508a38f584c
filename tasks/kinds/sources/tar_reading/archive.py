"""Reads a tar archive from end to end, in bounded memory; where it breaks off, says so."""

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tarfile import HeaderError
from typing import IO, Any, Self

import pyarrow as pa

from tasks.kinds.sources.compressed import CODECS, DamagedFile, decompressed
from tasks.kinds.sources.fitting import data_error
from tasks.kinds.sources.whole_file import LARGEST_FILE

IN_SHORT = {".tgz": "gzip", ".tbz2": "bz2", ".txz": "xz"}
COMPRESSED = {**CODECS, **IN_SHORT}
BYTES_PER_BLOCK = 1 << 20
LARGEST_HEADER = 1 << 20
MORE_OF_A_HEADER = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
# In tarfile since Python 3.0, and in no type stub.
EndOfArchive: type[Exception] = vars(tarfile)["EOFHeaderError"]


class DamagedTar(ValueError):
    """An archive cannot be read on from here."""


class Header(tarfile.TarInfo):
    """A member's header; what is none is an error, where tarfile takes it for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """A header in its bytes.

        Raises:
            DamagedTar: it says that more of it follows than anybody writes.
        """
        found = super().frombuf(buf, encoding, errors)
        if found.type in MORE_OF_A_HEADER and found.size > LARGEST_HEADER:
            raise DamagedTar(f"the archive has a header of {found.size:,} bytes")
        return found

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        """The next header.

        Raises:
            DamagedTar: there is none, nor a mark of the end.
        """
        try:
            return super().fromtarfile(tarfile)
        except (EndOfArchive, DamagedTar):
            raise
        except (HeaderError, ValueError) as error:
            raise DamagedTar(f"the archive is cut off or damaged: {error}") from error


def members(
    file: IO[bytes], path: str, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[str, bytes | str]]:
    """Names and contents of an archive's files, in order.

    Args:
        file: the archive.
        path: whose ending says how it is compressed; else its first bytes do.
        is_wanted: by name, whether a content is wanted; of others it is left empty.

    Yields:
        A name and what the file holds; a text says why that cannot be had.

    Raises:
        DamagedTar: the archive breaks off, or goes on behind its end.
        OSError: storage failed.
    """
    with data_errors():
        tar = opened(file, path)
    while (member := next_member(tar)) is not None:
        vars(tar)["members"].clear()  # else it remembers all of them
        if not member.isdir():
            yield member.name, content_of(tar, member) if is_wanted(member.name) else b""
    see_that_nothing_follows(tar)


def opened(file: IO[bytes], path: str) -> tarfile.TarFile:
    """A file as an archive."""
    stream, _ = decompressed(file, path, COMPRESSED)
    return tarfile.open(fileobj=stream, mode="r|", tarinfo=Header)


def next_member(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    """The next file's header; None at the end.

    Raises:
        DamagedTar: the archive ends before; tarfile would look for it as long as a file's size is.
    """
    stream: Any = tar.fileobj
    is_first = vars(tar)["firstmember"] is not None  # its header was read to open the archive
    with data_errors():
        while not is_first and (left := tar.offset - 1 - stream.tell()) > 0:
            if not stream.read(min(left, BYTES_PER_BLOCK)):
                raise DamagedTar("the archive is cut off or damaged: unexpected end of data")
        return tar.next()


def content_of(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | str:
    """What a file holds, or why that cannot be had."""
    if member.issym() or member.islnk():
        return "is a link: pack its target instead (tar --dereference)"
    if not member.isreg():
        return "is not a file but a device or a pipe"
    if member.size > LARGEST_FILE:
        return f"has {member.size:,} bytes; at most {LARGEST_FILE:,} are read"
    with data_errors():
        content = tar.extractfile(member)
        return content.read() if content else b""


def see_that_nothing_follows(tar: tarfile.TarFile) -> None:
    """Behind the end there are zeros, or another archive that tarfile would pass over."""
    stream: Any = tar.fileobj
    with data_errors():
        while block := stream.read(BYTES_PER_BLOCK):
            if block.strip(b"\0"):
                raise DamagedTar(
                    "the archive has data after its end: if several were joined with cat, keep "
                    "them separate"
                )


@contextmanager
def data_errors() -> Iterator[None]:
    """What tarfile and Arrow raise on damaged data, as DamagedTar; storage's errors as they are."""
    try:
        yield
    except (tarfile.TarError, pa.ArrowException, DamagedFile, OSError) as error:
        reason = data_error(error)
        raise DamagedTar(f"the archive is cut off or damaged: {reason}") from error
