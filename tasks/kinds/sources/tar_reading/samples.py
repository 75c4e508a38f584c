"""Groups an archive's files into samples, and makes rows of them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from tasks.kinds.audio import audio_field
from tasks.kinds.column_types import IMAGE, MEDIA
from tasks.kinds.sources import audio, images
from tasks.kinds.sources.tar_reading.archive import DamagedTar, members
from tasks.protocol.batch import RESERVED

NAME = re.compile(r"(?!__[^/]*__/)((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)
"""A sample's key, with its folder, up to the first dot of the file's name; and the ending."""
KEY = "key"
IMAGES = {suffix[1:] for suffix in images.SUFFIXES}
SOUNDS = {suffix[1:] for suffix in audio.SUFFIXES}
NUMBERS = {"cls", "cls2", "class", "count", "index", "inx", "id"}
TEXTS = {"txt", "text", "transcript", "json"}


@dataclass(frozen=True)
class Sample:
    """Files side by side that have one key."""

    key: str
    files: tuple[tuple[str, bytes | str], ...]
    """Endings in small letters, and what the files hold; a text says why that cannot be had."""


def samples(
    file: IO[bytes], path: str, is_wanted: Callable[[str], bool]
) -> Iterator[Sample | DamagedTar]:
    """An archive's samples; where it breaks off, a DamagedTar in place of the one at hand.

    Args:
        file: the archive.
        path: whose ending says how it is compressed.
        is_wanted: of which endings the content is wanted.
    """
    key, files = "", list[tuple[str, bytes | str]]()
    try:
        for name, content in members(file, path, lambda name: is_wanted(ending_of(name))):
            found = NAME.fullmatch(name)
            if found is None:
                continue  # no sample's, as in WebDataset's own reader
            if found[1] != key and files:
                yield Sample(key, tuple(files))
                files = []
            key = found[1]
            files.append((ending_of(name), content))
    except DamagedTar as error:
        yield DamagedTar(f"{error}; the last sample begun is {key!r}" if key else str(error))
        return
    if files:
        yield Sample(key, tuple(files))


def ending_of(name: str) -> str:
    """All behind the first dot of a file's name, in small letters."""
    found = NAME.fullmatch(name)
    return found[2].lower() if found else ""


def column_of(ending: str) -> str:
    """The column for files with an ending: models look for `image` and `audio`."""
    if ending in IMAGES:
        return "image"
    return "audio" if ending in SOUNDS else ending


def can_be_column(name: str) -> bool:
    """Whether a column may be called so."""
    return name != KEY and not name.startswith(RESERVED)


def field_of(name: str, sampling_rate: int) -> pa.Field:
    """A column's type, by the last part of its name."""
    last = name.rpartition(".")[2]
    if name == "image" or last in IMAGES:
        return pa.field(name, pa.binary(), metadata={MEDIA: IMAGE})
    if name == "audio" or last in SOUNDS:
        return audio_field(name, sampling_rate)
    if last in NUMBERS:
        return pa.field(name, pa.int64())
    return pa.field(name, pa.string() if last in TEXTS else pa.binary())


def value_of(ending: str, content: bytes | str, kind: pa.DataType) -> Any:
    """What a file holds, as its column wants it.

    Raises:
        ValueError: it cannot be had, is no whole number, or no UTF-8.
    """
    if isinstance(content, str):
        raise ValueError(f"the file .{ending} {content}")
    if pa.types.is_binary(kind):
        return content
    try:
        text = content.decode()
        if not pa.types.is_integer(kind):
            return text
        if "_" in text:
            raise ValueError("Python would read 1_2 as 12")
        return pa.scalar(int(text), kind).as_py()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        wanted = "a whole number of 64 bits" if pa.types.is_integer(kind) else "text in UTF-8"
        raise ValueError(f"the file .{ending} contains {content[:40]!r}, not {wanted}") from error


def refuse_half(sample: Sample, wanted: set[str], seen: dict[str, set[str]]) -> None:
    """Refuse what an archive has of a sample apart from the rest of it, as tar packs a folder.

    It would be a row of its own, and both would lack what the other one has. A sample that has all
    columns is whole; keys of these, which may be millions, are not remembered.

    Args:
        sample: as it was found.
        wanted: columns, without the key.
        seen: what there was of samples that are not whole, by key; added to.

    Raises:
        ValueError: it is a part of one that came before.
    """
    own = {column_of(ending) for ending, _ in sample.files} & wanted
    if own == wanted:
        return
    before = seen.setdefault(sample.key, set())
    if before and own.isdisjoint(before):
        raise ValueError(
            f"other files of the sample {sample.key!r} came earlier, not next to these: pack the "
            "archive again with each sample's files together, for example with tar --sort=name"
        )
    before |= own


def row_of(sample: Sample, schema: pa.Schema, *, ignores_others: bool) -> dict[str, Any]:
    """A sample as a row.

    Raises:
        ValueError: a file's ending is not among the columns, two are for one column, or what it
            holds does not fit.
    """
    sample.key.encode()
    row: dict[str, Any] = {KEY: sample.key}
    for ending, content in sample.files:
        name = column_of(ending)
        if name not in schema.names or name == KEY:
            if ignores_others:
                continue
            raise ValueError(
                f"the file .{ending} has no column: the first samples have {schema.names}; set "
                "source.columns to those to read, and all others are ignored"
            )
        if name in row:
            raise ValueError(f"two files are for the column {name!r}, the second is .{ending}")
        row[name] = value_of(ending, content, schema.field(name).type)
    return row
