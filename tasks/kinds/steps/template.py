"""A text written of a row's columns, such as a prompt."""

import json
from dataclasses import dataclass
from string import Formatter
from typing import Annotated, Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field, field_validator

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import as_text, has_no_value, inner, is_media, is_text
from tasks.kinds.columns import in_one, visible, with_column
from tasks.kinds.form import EmptyText
from tasks.kinds.no_number import finite, null_for_nan
from tasks.kinds.short_floats import short_floats
from tasks.kinds.sinks import json_texts
from tasks.kinds.steps.step import NEW_COLUMN, Function, Step

WIDEST = 32
"""Bytes of one value of a type of fixed width, at most: a decimal of 256 bits has them."""
MOST_BYTES = 1 << 31
LONG = pa.large_string()
"""However much text a batch makes, it has room."""
JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str)
WAY_OUT = "write columns in braces, such as {review}, and double a literal brace"


class TemplateStep(Step):
    """Writes a text from a row's columns: a prompt, a title with its body, a query with its prefix.

    A row in which one of them is empty (null, NaN) is set aside, unless `empty` says what to write.
    """

    model_config = ConfigDict(title="Template")
    kind: Literal["template"] = "template"
    template: str = Field(
        min_length=1,
        description="The text, with columns in braces, as in: Is this review of {product} kind? "
        "{review}. Python's formats may follow a colon: {price:.2f}, {day:%d %B %Y}, "
        "{review:.2000} for the first 2,000 characters. Lists and structs are written as JSON. "
        "Write a literal brace twice: {{ or }}.",
    )
    column: str = Field(
        default="prompt",
        pattern=NEW_COLUMN,
        description="Column of the text; an existing column of this name is replaced.",
    )
    empty: Annotated[str | None, EmptyText()] = Field(
        default=None,
        description="What to write for an empty value (null, NaN). Left out: such rows are set "
        "aside.",
    )

    @field_validator("template")
    @classmethod
    def _can_be_read(cls, template: str) -> str:
        if not any(each.column for each in parts_of(template)):
            raise ValueError(f"has no column: {WAY_OUT}")
        return template

    @property
    def parts(self) -> list["Part"]:
        """The template, cut at its columns."""
        return parts_of(self.template)

    @property
    def reads(self) -> dict[str, list[str]]:
        """The columns that the template names."""
        return {"template": sorted({each.column for each in self.parts if each.column})}

    def build(self) -> Function:
        """The step as a function."""
        return self.write

    def write(self, rows: pa.Table) -> pa.Table:
        """Add the column.

        Raises:
            InvalidSpec: a column is not there, or holds nothing that can be written so.
            ValueError: a row has nothing in one, or what its format cannot write.
        """
        pieces = [piece for part in self.parts for piece in self.pieces(part, rows)]
        empty = {"null_handling": "replace", "null_replacement": self.empty or ""}
        texts = pc.binary_join_element_wise(*pieces, pa.scalar("", LONG), **empty)
        return with_column(rows, self.column, pa.chunked_array(in_short(texts), pa.string()))

    def pieces(self, part: "Part", rows: pa.Table) -> list[pa.Scalar | pa.ChunkedArray]:
        """What is before a column, and the column's texts, of each row; errors as `write`."""
        before = pa.scalar(part.text, LONG)
        if part.column is None:
            return [before]
        have = visible(rows)
        if part.column not in have:
            raise self.wrong(f"{part.column!r} is not among the columns {have}")
        field = rows.schema.field(part.column)
        if is_media(field) or not is_written(field.type):
            raise self.wrong(f"{part.column!r} is {field.type}, not text")
        column = null_for_nan(rows[part.column])
        # What has no value may be text for want of a type, as where the first rows have none.
        has_values = column.null_count < len(rows)
        is_told = is_text(column.type) and not (len(rows) or has_no_value(field))
        if has_values or is_told or not is_text(as_text(column.type)):
            self.refuse_format(part, column.type)
        if column.null_count and self.empty is None:
            problem = "is empty in this row, but the template uses it: set empty: to the text "
            raise ValueError(f"column {part.column!r} {problem}to write for it")
        return [before, texts_of(part, column)]

    def refuse_format(self, part: "Part", kind: pa.DataType) -> None:
        """See that a part's format is one for a column's type, whatever its values are.

        Raises:
            InvalidSpec: it is not.
        """
        example = example_of(kind) if part.spec else ""
        try:
            format(example, part.spec)
        except (ValueError, TypeError) as error:
            said = (
                f"{part.spec!r} is not a format for {type(example).__name__}, the type of "
                f"{part.column!r}"
            )
            raise self.wrong(f"{said}: {error}") from error

    def wrong(self, problem: str) -> InvalidSpec:
        """An error of the template."""
        return InvalidSpec.at("steps.template.template", self.template, problem)


@dataclass(frozen=True)
class Part:
    """A text, and the column that follows it."""

    text: str
    column: str | None
    """None at the template's end."""
    spec: str = ""
    """How the value is formatted, as after the colon in Python's braces."""

    @classmethod
    def of(cls, text: str, column: str | None, spec: str | None, conversion: str | None) -> Self:
        """A part as Python's parser gives it.

        Raises:
            ValueError: it has what is not for templates of columns.
        """
        if conversion:
            raise ValueError(f"!{conversion} cannot be used for columns: {WAY_OUT}")
        is_json = column is not None and column.lstrip()[:1] in ("", '"', "'")
        if is_json or "{" in (spec or ""):
            raise ValueError(f"has braces without a column's name: {WAY_OUT}")
        return cls(text, column, spec or "")


def texts_of(part: Part, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column's values as they are written; missing ones are so still.

    Raises:
        ValueError: one is none that the format is for, as a number so large.
    """
    kind = column.type
    if not part.spec and (pa.types.is_integer(kind) or is_whole_text(column)):
        return column.cast(LONG)  # just as Python writes them
    if not part.spec and is_plain_json(kind):
        found = json_texts.texts(in_one(column)).cast(LONG)
        return pa.chunked_array([pc.if_else(in_one(column).is_valid(), found, None)])
    if may_repeat(kind):
        values = column.unique()
        if 2 * len(values) <= len(column):
            places = pc.index_in(column, values)
            return pa.chunked_array([written(part, values)]).take(places)
    return pa.chunked_array([written(part, column)])


def written(part: Part, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The same, written one by one by Python; errors as `texts_of`."""
    values = short_floats(pa.table({"": column}))[0].to_pylist()
    if pa.types.is_nested(column.type):
        values = [None if each is None else as_json(each) for each in values]
    texts: list[str | None] = []
    try:
        for each in values:
            texts.append(None if each is None else format(each, part.spec))
    except (ValueError, TypeError, OverflowError) as error:
        said = f"column {part.column!r} has {values[len(texts)]!r} in this row, which "
        raise ValueError(f"{said}{part.spec!r} cannot write: {error}") from error
    return pa.array(texts, LONG)


def is_plain_json(kind: pa.DataType) -> bool:
    """Whether lists or structs are written as in files of JSON Lines; times have another form."""
    kinds = [*inner(kind)]
    has_times = any(map(pa.types.is_timestamp, kinds)) or any(map(pa.types.is_duration, kinds))
    return pa.types.is_nested(kind) and not has_times


def as_json(value: Any) -> str:
    """A list or struct as JSON, with null for what is no number."""
    try:
        return JSON.encode(value)
    except ValueError:
        return JSON.encode(finite(value))


def is_whole_text(column: pa.ChunkedArray) -> bool:
    """Whether a column is of texts, all of whose bytes are letters to Python."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return is_text(column.type)


def may_repeat(kind: pa.DataType) -> bool:
    """Whether many values of a type may be the same, each of which is then written once.

    Fractions seldom are, and two that are equal, 0.0 and -0.0, are written in two ways.
    """
    is_time = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    return is_time or is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def in_short(texts: pa.ChunkedArray) -> list[pa.Array]:
    """Texts in pieces of which each has fewer bytes than Arrow's own kind of text holds."""
    if texts.nbytes < MOST_BYTES or len(texts) == 1:
        return texts.cast(pa.string()).chunks
    half = len(texts) // 2
    return [*in_short(texts.slice(0, half)), *in_short(texts.slice(half))]


def parts_of(template: str) -> list[Part]:
    """The template, cut at its columns.

    Raises:
        ValueError: says what is wrong with it.
    """
    try:
        found = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"does not parse, {error}: {WAY_OUT}") from error
    return [Part.of(text, column, spec, how) for text, column, spec, how in found]


def is_written(kind: pa.DataType) -> bool:
    """Whether values of a type can stand in a text."""
    return not any(
        pa.types.is_binary(each)
        or pa.types.is_large_binary(each)
        or pa.types.is_fixed_size_binary(each)
        or isinstance(each, pa.BaseExtensionType)
        for each in inner(kind)
    )


def example_of(kind: pa.DataType) -> Any:
    """A value of a type as templates get it; which one does not matter to its format."""
    if not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind)):
        return ""  # text, or what is written as JSON
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(WIDEST))])[0].as_py()
