"""What a column holds, by its field: media from files, lists, texts, numbers."""

import json
from collections.abc import Iterator
from typing import NamedTuple, Self

import pyarrow as pa

from tasks.kinds.tensors import is_tensor

MEDIA = b"media"
"""Field metadata: what a column of files holds. It stays when they are decoded, and keeps the
column out of the output unless the sink's `keep_columns` names it."""
IMAGE, AUDIO, FILE = b"image", b"audio", b"file"
NO_VALUE = {b"values": b"none"}
"""Metadata of a column without a value in the first rows, or with a list or a struct's field that
has none: text, for want of a type."""

LATER_VALUE = {b"values": b"later"}
"""Metadata of a column that a source takes for text as its first file has no value in it, and that
has some in later ones: no more than text will fit."""
WORD = b"word"
"""Metadata of a column that would be one of numbers, were it not for a word: what is known of that,
as JSON."""


class Word(NamedTuple):
    """What makes a column of numbers one of text."""

    column: str
    """As the source names it."""
    value: str
    place: str
    """File and row."""

    def noted(self, each: pa.Field) -> pa.Field:
        """The column, which says so from now on."""
        return each.with_metadata({WORD: json.dumps(self)})

    @classmethod
    def of(cls, each: pa.Field) -> Self | None:
        """That of a column; None where there is none."""
        held = (each.metadata or {}).get(WORD)
        return cls(*json.loads(held)) if held else None


def is_media(each: pa.Field) -> bool:
    """Whether a column came from files, encoded or not."""
    return MEDIA in (each.metadata or {})


def is_encoded(each: pa.Field, media: bytes) -> bool:
    """Whether a column holds images or sound that are to be decoded."""
    return is_media(each) and each.metadata[MEDIA] == media and pa.types.is_binary(each.type)


def is_plain_number(kind: pa.DataType) -> bool:
    """Whether NumPy has the very same numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists of any length."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def is_any_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists, of one size or any."""
    return is_list(kind) or pa.types.is_fixed_size_list(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds texts, also where numbers stand for them."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def plain(kind: pa.DataType) -> pa.DataType:
    """A type as sources give it: without dictionaries, views and 64-bit offsets."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(plain(kind.value_type), kind.list_size)
    if is_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, plain(each.type)) for each in kind])
    return kind


def inner(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and all types within it."""
    yield kind
    if pa.types.is_dictionary(kind):
        yield from inner(kind.value_type)
    for at in range(kind.num_fields):
        yield from inner(kind.field(at).type)


def has_null(kind: pa.DataType) -> bool:
    """Whether nobody knows a type yet, or one within."""
    return any(map(pa.types.is_null, inner(kind)))


def completed(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type with another one's, at any depth, where nobody knows one yet."""
    if pa.types.is_null(kind):
        return other
    if not has_null(kind):
        return kind
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        theirs = {each.name: each.type for each in other}
        types = {each.name: theirs.get(each.name, each.type) for each in kind}
        return pa.struct([(each.name, completed(each.type, types[each.name])) for each in kind])
    if pa.types.is_map(kind) and pa.types.is_map(other):
        items = completed(kind.item_type, other.item_type)
        return pa.map_(completed(kind.key_type, other.key_type), items)
    if is_list(kind) and is_list(other):
        return pa.list_(completed(kind.value_type, other.value_type))
    return kind


def as_text(kind: pa.DataType) -> pa.DataType:
    """A type with text where nobody knows one yet."""
    if pa.types.is_null(kind):
        return pa.string()
    if not has_null(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(as_text(each.type)) for each in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(as_text(kind.value_type), kind.list_size)
    if pa.types.is_map(kind):
        return pa.map_(as_text(kind.key_type), as_text(kind.item_type))
    return pa.list_(as_text(kind.value_type)) if is_list(kind) else kind


def text_for_none(each: pa.Field) -> pa.Field:
    """A column as text where it has no value to tell a type by, which its metadata says then."""
    if not pa.types.is_null(each.type):
        return each
    return pa.field(each.name, pa.string(), metadata=NO_VALUE)


def has_no_value(each: pa.Field) -> bool:
    """Whether a column is text only for want of a value."""
    return is_text(each.type) and each.metadata == NO_VALUE


def is_deep(kind: pa.DataType) -> bool:
    """Whether a column's values are arrays of two or more dimensions, or tensors."""
    if pa.types.is_fixed_size_list(kind):
        return pa.types.is_fixed_size_list(kind.value_type)
    return is_tensor(kind) or isinstance(kind, pa.FixedShapeTensorType)
