"""Text files in another encoding than UTF-8, read as if they were in that."""

import codecs
from collections.abc import Iterator
from itertools import chain
from typing import Annotated

from pydantic import AfterValidator, Field

from tasks.kinds.sources.compressed import DamagedFile
from tasks.kinds.sources.source import Source


def _known(name: str) -> str:
    try:
        "".encode(name)
    except (LookupError, ValueError) as error:
        problem = "use one that Python knows, such as windows-1252, latin-1, shift_jis or utf-16"
        raise ValueError(f"{name!r} is not a text encoding: {problem}") from error
    return name


class EncodedSource(Source):
    """Text files, perhaps in an encoding other than UTF-8."""

    encoding: Annotated[str, AfterValidator(_known)] | None = Field(
        default=None,
        description="Encoding of the files, if not UTF-8: windows-1252, latin-1, shift_jis, utf-16 "
        "or another that Python knows. A file that begins with the mark of UTF-8 is read as UTF-8 "
        "all the same.",
    )


def as_utf8(found: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Blocks of a file in UTF-8. Bytes that stand for nothing stay: their rows alone are bad.

    Raises:
        DamagedFile: nothing from here on can be read.
    """
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    at_start = True
    try:
        for block in chain(found, [b""]):
            if text := decoder.decode(block, final=not block):
                told = text.removeprefix("\ufeff") if at_start else text
                at_start = False
                yield told.encode(errors="surrogateescape")
    except UnicodeError as error:
        problem = f"the file is not {encoding}, as source.encoding says"
        if "BOM" in str(error):
            known = codecs.lookup(encoding).name
            problem += f": it has no byte order mark; set {known}-le or {known}-be"
        raise DamagedFile(problem) from error
