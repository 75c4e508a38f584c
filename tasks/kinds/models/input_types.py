"""What a model's input columns must hold, by their types: known before anything is loaded."""

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import is_any_list, is_deep, is_list, is_text


def refuse_other_than_text(kind: pa.DataType, name: str, field: str = "column") -> None:
    """See that a column is one of texts, or has no value at all.

    Raises:
        InvalidSpec: it holds something else.
    """
    if not (is_text(kind) or pa.types.is_null(kind)):
        problem = f"is {kind}, not text; use another column, or convert it in a step"
        raise InvalidSpec.at(f"model.{field}", name, problem)


def refuse_other_than_images(kind: pa.DataType, name: str, field: str = "model.column") -> None:
    """See that a column may be one of images, encoded or as a step's arrays.

    Args:
        kind: the column's type.
        name: the column's.
        field: that names it.

    Raises:
        InvalidSpec: it holds something else.
    """
    refuse_other_than_media(kind, name, field, "images", is_list(kind), "arrays")


def refuse_other_than_sounds(kind: pa.DataType, name: str) -> None:
    """See that a column may be one of sounds, encoded or as a step's samples.

    Raises:
        InvalidSpec: it holds something else.
    """
    refuse_other_than_media(kind, name, "model.column", "sounds", is_any_list(kind), "samples")


def refuse_other_than_media(
    kind: pa.DataType, name: str, field: str, wanted: str, is_made: bool, made: str
) -> None:
    """See that a column may be one of files, or of what a step has made of them.

    Args:
        kind: the column's type.
        name: the column's.
        field: that names it.
        wanted: what it should hold.
        is_made: whether its lists may be what a step has made.
        made: what that is called.

    Raises:
        InvalidSpec: it holds something else.
    """
    is_encoded = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if not (is_encoded or is_made or is_deep(kind) or pa.types.is_null(kind)):
        problem = f"is {kind}, not {wanted}: it must have files, or {made} from a step"
        if is_text(kind):
            problem += "; read the files that it names in your own step"
        raise InvalidSpec.at(field, name, problem)


def refuse_other_than_numbers(kind: pa.DataType, name: str, field: str) -> None:
    """See that a column is one of numbers, or has no value at all.

    Raises:
        InvalidSpec: it holds something else.
    """
    if not (is_number(kind) or pa.types.is_null(kind)):
        problem = f"is {kind}, not numbers; leave it out or convert it"
        raise InvalidSpec.at(field, name, problem)


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is of numbers, or of truth values, which count as 0 and 1."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )
