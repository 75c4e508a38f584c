"""Rows from JSON Lines files: one object a line, of the types that the first rows have."""

import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.json as pj
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import text_for_none
from tasks.kinds.sources.compressed import CODECS
from tasks.kinds.sources.doubles import (
    TOO_LARGE,
    any_infinity,
    is_too_large,
    whole_number,
)
from tasks.kinds.sources.files_to_ask import GROWS, spread
from tasks.kinds.sources.given_types import JsonType, refuse_unread, with_given
from tasks.kinds.sources.json_arrays import refuse_other_json
from tasks.kinds.sources.json_fits import check_of
from tasks.kinds.sources.json_misfits import Misfits
from tasks.kinds.sources.json_types import (
    TOO_DEEP,
    extended,
    load,
    merged_objects,
    settled,
    type_of,
    types_of_first,
    types_of_others,
)
from tasks.kinds.sources.sifting import sifted
from tasks.kinds.sources.source import ROWS_PER_READ, Read, Source, pins_of, schema_of
from tasks.kinds.sources.text import (
    BOM,
    blocks,
    not_utf8,
    read_lines,
    reads_of,
    shortened,
    universal,
)
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

ROWS_TO_INFER = 1_000
FIRST_ROWS = f"the first {ROWS_TO_INFER:,} rows"
BLANK = b" \t\r\n"
MAY_BE_TOO_LARGE = re.compile(rb"\d{309}|\d[eE]\+?\d\d")
CONVERT_IT = "JSON must be: convert the file, for example with iconv -f WINDOWS-1252 -t UTF-8"


class JsonlSource(Source):
    """Objects of JSON Lines files."""

    model_config = ConfigDict(title="JSON Lines")
    kind: Literal["jsonl"] = "jsonl"
    columns: list[str] | None = Field(
        default=None,
        description="Read only these keys and ignore all others. Empty: all keys of the first "
        "1,000 rows, for a sink with evolve_schema also those of later files; a row with another "
        "key is set aside.",
    )
    types: dict[str, JsonType] = Field(
        default={},
        description="Types of keys, in place of those of the first 1,000 rows, as in price: "
        "float64 if these have only whole numbers; also of keys that none of these rows has. "
        "timestamp and timestamp_utc convert offsets to UTC; timestamp then has no zone. A row "
        "whose value does not fit is set aside. Published columns keep their types until a run "
        "with --replace-output.",
    )
    suffixes: ClassVar[tuple[str, ...]] = tuple(
        f"{name}{codec}" for name in (".jsonl", ".ndjson") for codec in ("", *CODECS)
    )
    reads_on: ClassVar[bool] = True
    guesses_types: ClassVar[bool] = True

    def pin(
        self, storage: FsspecStorage, inputs: Sequence[Stat], *, grows: bool = False
    ) -> dict[str, Any]:
        """Infer the columns' types from the first rows.

        Args:
            storage: where the files lie.
            inputs: the files.
            grows: whether later ones bring columns.

        Raises:
            InvalidSpec: one of `columns` is in none of these rows, one of `types` is not among
                `columns`, or the files are no JSON Lines.
        """
        refuse_unread(self.types, self.columns or None)
        refuse_other_json(storage, inputs)
        found = merged_objects(types_of_first(storage, inputs, ROWS_TO_INFER))
        if grows:
            found = reduce(extended, types_of_others(storage, spread(inputs)), found)
        told = (settled(text_for_none(field)) for field in found.fields)
        seen = with_given(pa.schema([*told]), self.types)
        fields = {field.name: field for field in seen}
        missing = [name for name in self.columns or [] if name not in fields]
        if missing and found.num_fields:
            known = f"{FIRST_ROWS}, which have {', '.join(fields)}"
            problem = f"is in none of {known}: correct it, or give its type in source.types"
            raise InvalidSpec.at("source.columns", missing, problem)
        names = dict.fromkeys(self.columns or fields)
        nothing = {name: text_for_none(pa.field(name, pa.null())) for name in names}
        schema = pa.schema([fields.get(name, nothing[name]) for name in names])
        return pins_of(schema) | ({GROWS: []} if grows else {})

    def pin_for_growth(
        self, storage: FsspecStorage, inputs: Sequence[Stat], needed: Collection[str]
    ) -> dict[str, Any]:
        """See Source; not all files are asked where there are many. Any row may lack any key."""
        return self.pin(storage, inputs, grows=not self.columns)

    def retyped(self, pins: dict[str, Any]) -> dict[str, Any]:
        """See Source."""
        found = with_given(schema_of(pins["schema"]), self.types)
        return pins | pins_of(found)

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the objects; a line that is none, or does not fit the types, is a bad row."""
        schema = schema_of(pins["schema"])
        rows = "the rows inspected" if GROWS in pins else FIRST_ROWS
        parser = Parser(schema, ignores_others=bool(self.columns), looked_at=rows)
        with storage.open(shard.path) as file:
            found = blocks(file, shard.path, num_columns=len(schema))
            yield from read_lines(universal(found), parser.rows)


class Parser:
    """Makes rows of lines."""

    def __init__(
        self, schema: pa.Schema, *, ignores_others: bool, looked_at: str = FIRST_ROWS
    ) -> None:
        self.schema = schema
        self.looked_at = looked_at
        self.ignores_others = ignores_others
        self.options = pj.ParseOptions(
            explicit_schema=schema,
            unexpected_field_behavior="ignore" if ignores_others else "error",
        )
        self.decoder = json.JSONDecoder(parse_int=whole_number, object_pairs_hook=distinct)
        self.check = check_of(pa.struct([*schema]), ignores_others=ignores_others)

    def rows(self, block: bytes) -> Iterator[Read]:
        """The rows of whole lines; blank lines are none."""
        count = block.count(b"\n")
        # As files are written as a rule; Python takes longer for lines than Arrow to read them.
        if block[:1] == b"{" and block[-2:] == b"}\n" and block.count(b"}\n{") == count - 1:
            try:
                table = self.together(block, count)
            except (ValueError, pa.ArrowException):
                pass
            else:
                yield from reads_of(table)
                return
        stripped = (each.strip(BLANK) for each in block.split(b"\n"))
        # Files that were joined have a mark before their first line each. That of an empty one is
        # a line: were it none, rows behind it would have other ids than they had before.
        lines = [line.removeprefix(BOM) for line in stripped if line]
        for at in range(0, len(lines), ROWS_PER_READ):
            yield from self.few(lines[at : at + ROWS_PER_READ])

    def few(self, lines: list[bytes]) -> Iterator[Read]:
        """The rows of so few lines that those which are good need not be looked at one by one."""
        try:
            table = self.table(lines)
        except (ValueError, pa.ArrowException):
            found = ((at, self.amiss(line)) for at, line in enumerate(lines))
            suspects = {at: error for at, error in found if error}
            yield from sifted(lines, suspects, self.table, self.explain)
        else:
            yield from reads_of(table)

    def amiss(self, line: bytes) -> Exception | None:
        """Why a line is surely no row; None where Arrow may take it."""
        try:
            found = self.decoder.decode(line.decode())
        except json.JSONDecodeError as error:
            # Arrow takes Inf, and -NaN, beside what Python takes.
            return None if b"Inf" in line or b"-NaN" in line else error
        except UnicodeDecodeError as error:
            return error
        except RecursionError:
            return None
        except ValueError as error:
            return None if self.ignores_others else error
        if not isinstance(found, dict):
            return ValueError("not an object")
        return ValueError("it does not fit") if self.check(found) is False else None

    def table(self, lines: list[bytes]) -> pa.Table:
        """Lines as a table with a row for each."""
        # Arrow takes objects over several lines, several on one, and bytes that are not UTF-8,
        # and dies of a block that is only `null`.
        if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
            raise ValueError("not an object")
        return self.together(b"\n".join(lines), len(lines))

    def together(self, block: bytes, num_lines: int) -> pa.Table:
        """Lines that each begin and end as an object does, as a table with a row for each."""
        if not self.schema.names:
            raise ValueError("the first rows have no keys, so there is nothing to read")
        block.decode()
        options = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        table = pj.read_json(io.BytesIO(block), read_options=options, parse_options=self.options)
        if len(table) != num_lines:
            raise ValueError("the line has more than one object")
        # Arrow takes a number for an error where its exponent alone is too large, and else for inf.
        if any_infinity(table) and MAY_BE_TOO_LARGE.search(block):
            self.refuse_too_large(block.split(b"\n"))
        return table

    def refuse_too_large(self, lines: list[bytes]) -> None:
        """See that no number is infinite but those that are written so.

        Raises:
            ValueError: one is.
        """
        for line in filter(None, lines):
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
        misfits = Misfits(self.problem_of, self.ignores_others, self.looked_at)
        return misfits.in_object(found, self.schema)

    def problem_of(self, value: Any, wanted: pa.DataType) -> str | None:
        """Why a value is none of a type; None where it is one."""
        fits = check_of(wanted, ignores_others=self.ignores_others)(value)
        if fits is not None:
            return None if fits else "it is of another type"
        alone = Parser(pa.schema([("value", wanted)]), ignores_others=self.ignores_others)
        try:
            alone.table([json.dumps({"value": value}).encode()])
        except (ValueError, pa.ArrowException) as error:
            return str(error)
        return None


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
