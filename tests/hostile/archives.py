"""WebDataset shards: cut off, with names that lead elsewhere, and contents of no size at all."""

import gzip
import io
import random
import tarfile
from collections.abc import Iterator

from tests.hostile.files import Hostile, cuts, flips, wrong
from tests.kinds.archives import Files, tar

SAMPLES: Files = {
    f"{each:03}.{end}": content
    for each in range(9)
    for end, content in (("txt", b"word %d" % each), ("cls", b"%d" % each))
}


def webdataset(seed: random.Random) -> Iterator[Hostile]:
    """All of them."""
    whole = tar(SAMPLES)
    for name, content in [*cuts(whole, range(0, len(whole), 1536)), *flips(whole, 15, seed)]:
        yield Hostile("webdataset", f"{name}.tar", content)
    for name, content in wrong(whole).items():
        yield Hostile("webdataset", f"{name}.tar", content)
    packed = gzip.compress(whole)
    for name, content in [*cuts(packed, [10, len(packed) // 2]), *flips(packed, 5, seed)]:
        yield Hostile("webdataset", f"{name}.tar.gz", content)
    for name, files, good in [
        ("up and away", {"../../etc/passwd.txt": b"x", "../../etc/passwd.cls": b"1"}, 1),
        ("absolute", {"/etc/passwd.txt": b"x", "/etc/passwd.cls": b"1"}, 1),
        ("no number", {"a.txt": b"x", "a.cls": b"one"}, 0),
        ("not UTF-8", {"a.txt": b"gr\xfcn", "a.cls": b"1"}, 0),
        ("another ending", {"a.txt": b"x", "a.cls": b"1", "a.exe": b"MZ"}, None),
        ("two of an ending", {"a.txt": b"x", "a.TXT": b"y", "a.cls": b"1"}, 0),
        ("a long number", {"a.txt": b"x", "a.cls": b"9" * 5_000}, 0),
        ("odd names", {"a b='\"\n😀.txt": b"x", "a b='\"\n😀.cls": b"1"}, None),
        ("a long name", {"n" * 5_000 + ".txt": b"x", "n" * 5_000 + ".cls": b"1"}, 1),
    ]:
        yield Hostile("webdataset", f"{name}.tar", tar(files), good)
    for name, kind in {
        "link": tarfile.SYMTYPE,
        "hard link": tarfile.LNKTYPE,
        "pipe": tarfile.FIFOTYPE,
        "device": tarfile.CHRTYPE,
    }.items():
        yield Hostile("webdataset", f"{name}.tar", special(kind), 0)
    yield Hostile("webdataset", "says an exabyte.tar", claiming(1 << 60), 0, True)
    yield Hostile("webdataset", "says less than nothing.tar", claiming(-1))
    for name, kind in {"a long name": tarfile.GNUTYPE_LONGNAME, "notes": tarfile.XHDTYPE}.items():
        yield Hostile("webdataset", f"an exabyte of {name}.tar", claiming(1 << 60, kind), 0, True)
    yield Hostile("webdataset", "two joined.tar", whole + whole, None, True)


def special(kind: bytes) -> bytes:
    """An archive with something that is no file."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        header = tarfile.TarInfo("a.txt")
        header.type, header.linkname = kind, "/etc/passwd"
        archive.addfile(header)
    return stream.getvalue()


def claiming(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """An archive with a file that says it is so large."""
    header = tarfile.TarInfo("a.txt")
    header.size, header.type = size, kind
    return header.tobuf(tarfile.GNU_FORMAT) + b"x" * 512 + bytes(1024)
