"""Says of columns that are text by a word among numbers which that is, where they do not fit."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import Word
from tasks.spec import BatchInferenceSpec


@contextmanager
def words_told(known: pa.Schema, reads: dict[str, list[str]]) -> Iterator[None]:
    """A block that refuses columns by their types, which then says why these are what they are.

    Args:
        known: all columns that are there.
        reads: those that are looked at, by field.

    Raises:
        InvalidSpec: as the block does, and says what makes texts of numbers.
    """
    try:
        yield
    except InvalidSpec as error:
        names = {name for names in reads.values() for name in names}
        error.hint = hint_of(each for each in known if each.name in names)
        raise


def hint_on(spec: BatchInferenceSpec, reader: dict[str, Any] | None) -> str:
    """The end of what is told of rows or a model that failed, as it may be for such columns.

    Args:
        spec: says what is read.
        reader: what the source has pinned; None of a redrive, whose rows were read by several.

    Returns:
        A sentence; empty where no column that goes to the model, or as far as columns are known, is
        such a one.
    """
    known = spec.source.schema_of_rows(reader) if reader else None
    if known is None:
        return ""
    for step in spec.steps:
        after = step.schema_after(known)
        if after is None:
            return hint_of(known or ())
        known = after
    read = spec.model.input_columns
    return hint_of(each for each in known if not read or each.name in read)


def hint_of(columns: Iterable[pa.Field]) -> str:
    """What makes texts of numbers in some columns, and the ways out; empty where nothing does."""
    found = [word for each in columns if (word := Word.of(each))]
    if not found:
        return ""
    told = "; ".join(
        f"{each.column!r} is read as text, because {each.value!r} is among its numbers "
        f"({each.place})"
        for each in found
    )
    first = found[0]
    return (
        f"{told}: give it a type, such as source.types: {{{first.column}: float64}}, which sets "
        f"such rows aside, or list the word in source.null_values: ['', {first.value!r}], which "
        "makes it an empty value"
    )
