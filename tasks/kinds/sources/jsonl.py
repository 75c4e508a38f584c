"""Rows from JSON Lines files: one object a line, of the types that the first rows have."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import chain, islice
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.json as pj
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import text_for_none
from tasks.kinds.sources.compressed import CODECS, DamagedFile
from tasks.kinds.sources.doubles import (
    TOO_LARGE,
    has_infinity,
    is_too_large,
    whole_number,
)
from tasks.kinds.sources.given_types import JsonType, refuse_unread, with_given
from tasks.kinds.sources.json_arrays import refuse_other_json
from tasks.kinds.sources.json_misfits import Misfits, is_beyond
from tasks.kinds.sources.json_types import merged, settled
from tasks.kinds.sources.source import Read, Source, pins_of, schema_of
from tasks.kinds.sources.text import (
    MOST_COLUMNS,
    blocks,
    halved,
    not_utf8,
    read_lines,
    shortened,
    universal,
    whole_lines,
)
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

ROWS_TO_INFER = 1_000
BLANK = b" \t\r\n"
DEEPEST = 32
"""Objects and lists within each other; Arrow and Parquet do not hold many more."""
MAY_BE_TOO_LARGE = re.compile(rb"\d{309}|\d[eE]\+?\d\d")
CONVERT_IT = "JSON is: convert the file, as by iconv -f WINDOWS-1252 -t UTF-8"
TOO_DEEP = f"it is nested more than {DEEPEST} deep"
load = partial(json.loads, parse_int=whole_number)


class JsonlSource(Source):
    """Objects of JSON Lines files."""

    model_config = ConfigDict(title="JSON Lines files")
    kind: Literal["jsonl"] = "jsonl"
    columns: list[str] | None = Field(
        default=None,
        description="Read only these keys and ignore all others. Where empty, all keys of the "
        "first 1,000 rows are read, and a row with another key is set aside.",
    )
    types: dict[str, JsonType] = Field(
        default={},
        description="Types of keys, in place of what the first 1,000 rows suggest, as in price: "
        "float64 where these have whole numbers only; also of keys that none of these rows has. "
        "timestamp and timestamp_utc take offsets into UTC; the first has no zone then. A row "
        "whose value does not fit is set aside. What is published keeps its types until a run with "
        "--replace-output.",
    )
    suffixes: ClassVar[tuple[str, ...]] = tuple(
        f"{name}{codec}" for name in (".jsonl", ".ndjson") for codec in ("", *CODECS)
    )
    reads_on: ClassVar[bool] = True
    guesses_types: ClassVar[bool] = True

    def pin(self, storage: FsspecStorage, inputs: Sequence[Stat]) -> dict[str, Any]:
        """Infer the columns' types from the first rows.

        Raises:
            InvalidSpec: one of `columns` is in none of these rows, one of `types` is not among
                `columns`, or the files are no JSON Lines.
        """
        refuse_unread(self.types, self.columns or None)
        refuse_other_json(storage, inputs)
        types = chain.from_iterable(object_types(storage, stat) for stat in inputs)
        found = reduce(merged, islice(types, ROWS_TO_INFER), pa.struct([]))
        told = (settled(text_for_none(field)) for field in found.fields)
        seen = with_given(pa.schema([*told]), self.types)
        fields = {field.name: field for field in seen}
        missing = [name for name in self.columns or [] if name not in fields]
        if missing and found.num_fields:
            known = f"the first {ROWS_TO_INFER:,} rows, which have {', '.join(fields)}"
            problem = f"is in none of {known}: correct it, or name its type in source.types"
            raise InvalidSpec.at("source.columns", missing, problem)
        names = dict.fromkeys(self.columns or fields)
        nothing = {name: text_for_none(pa.field(name, pa.null())) for name in names}
        schema = pa.schema([fields.get(name, nothing[name]) for name in names])
        return pins_of(schema)

    def retyped(self, pins: dict[str, Any]) -> dict[str, Any]:
        """See Source."""
        found = with_given(schema_of(pins["schema"]), self.types)
        return pins_of(found)

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the objects; a line that is none, or does not fit the types, is a bad row."""
        schema = schema_of(pins["schema"])
        parser = Parser(schema, ignores_others=bool(self.columns))
        with storage.open(shard.path) as file:
            yield from read_lines(universal(blocks(file, shard.path)), parser.rows)


class Parser:
    """Makes rows of lines."""

    def __init__(self, schema: pa.Schema, *, ignores_others: bool) -> None:
        self.schema = schema
        self.ignores_others = ignores_others
        self.options = pj.ParseOptions(
            explicit_schema=schema,
            unexpected_field_behavior="ignore" if ignores_others else "error",
        )

    def rows(self, block: bytes) -> Iterator[Read]:
        """The rows of whole lines; blank lines are none."""
        lines = [line for line in (each.strip(BLANK) for each in block.split(b"\n")) if line]
        if lines:
            yield from halved(lines, self.table, self.explain)

    def table(self, lines: list[bytes]) -> pa.Table:
        """Lines as a table with a row for each."""
        if not self.schema.names:
            raise ValueError("the first rows have no keys, so there is nothing to read")
        # Arrow takes objects over several lines, several on one, and bytes that are not UTF-8,
        # and dies of a block that is only `null`.
        if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
            raise ValueError("not an object")
        block = b"\n".join(lines)
        block.decode()
        options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        table = pj.read_json(io.BytesIO(block), read_options=options, parse_options=self.options)
        if len(table) != len(lines):
            raise ValueError("the line holds more than one object")
        # Arrow takes a number for an error where its exponent alone is too large, and else for inf.
        if MAY_BE_TOO_LARGE.search(block) and any(map(has_infinity, table.columns)):
            self.refuse_too_large(lines)
        return table

    def refuse_too_large(self, lines: list[bytes]) -> None:
        """See that no number is infinite but those that are written so.

        Raises:
            ValueError: one is.
        """
        for line in lines:
            found = load(line, parse_constant=lambda written: None)
            if any(is_too_large(found.get(name)) for name in self.schema.names):
                raise ValueError(TOO_LARGE)

    def explain(self, line: bytes, error: Exception) -> str:
        """Why a line is no row, for a person."""
        try:
            found = load(line.decode(), object_pairs_hook=distinct)
            if not isinstance(found, dict):
                return f"the line is JSON, but not an object: {shortened(line)[:40]}"
            type_of(found)
            return self.misfit(found) or f"the line cannot be read: {error}"
        except UnicodeDecodeError as not_text:
            return not_utf8(not_text, None, CONVERT_IT)
        except json.JSONDecodeError as not_json:
            return f"the line is not JSON: {not_json}"
        except RecursionError:
            return f"the line cannot be read: {TOO_DEEP}"
        except ValueError as no_row:
            return f"the line cannot be read: {no_row}"

    def misfit(self, found: dict[str, Any]) -> str | None:
        """The first key that is new or whose value does not fit."""
        first_rows = f"the first {ROWS_TO_INFER:,} rows"
        return Misfits(self.problem_of, self.ignores_others, first_rows).in_object(
            found, self.schema
        )

    def problem_of(self, value: Any, wanted: pa.DataType) -> str | None:
        """Why a value is none of a type; None where it is one."""
        alone = Parser(pa.schema([("value", wanted)]), ignores_others=self.ignores_others)
        try:
            alone.table([json.dumps({"value": value}).encode()])
        except (ValueError, pa.ArrowException) as error:
            return str(error)
        return None


def object_types(storage: FsspecStorage, stat: Stat) -> Iterator[pa.DataType]:
    """The types of a file's objects, one by one; bad lines are left to reading."""
    with storage.open(stat.path) as file:
        try:
            for block in whole_lines(universal(blocks(file, stat.path))):
                yield from filter(pa.types.is_struct, map(line_type, block.split(b"\n")))
        except DamagedFile:
            return


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's keys and values.

    Raises:
        ValueError: a key comes twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"it has the key {twice!r} twice")
    return found


def line_type(line: bytes) -> pa.DataType:
    """The type of a line's value; null where it is not JSON, or no row."""
    try:
        return type_of(load(line.decode()))
    except (ValueError, RecursionError):
        return pa.null()


def type_of(value: Any, depth: int = 0) -> pa.DataType:
    """The Arrow type of a JSON value.

    Raises:
        ValueError: it is nested too deep, or has too many keys.
    """
    if depth > DEEPEST:
        raise ValueError(TOO_DEEP)
    if isinstance(value, dict):
        if len(value) > MOST_COLUMNS:
            raise ValueError(f"it has {len(value):,} keys; at most {MOST_COLUMNS:,} are read")
        return pa.struct([(key, type_of(each, depth + 1)) for key, each in value.items()])
    if isinstance(value, list):
        types = (type_of(each, depth + 1) for each in value)
        return pa.list_(reduce(merged, types, pa.null()))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return pa.null() if is_beyond(value) else pa.uint64()  # doubles would round the others too
    plain = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    return plain.get(type(value), pa.null())
