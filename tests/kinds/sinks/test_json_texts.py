"""Texts that are made a column at a time are those that Python makes of one row after another."""

import json
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.kinds.no_number import finite
from tasks.kinds.short_floats import short_floats
from tasks.kinds.sinks import CsvSink, JsonlSink, Sink
from tasks.kinds.sinks.csv import flat
from tasks.kinds.sinks.json_texts import as_text, object_texts
from tasks.kinds.sinks.jsonl import columns_of

SINK = JsonlSink(path="/out")


def row_by_row(rows: pa.Table) -> str:
    """JSON Lines as Python writes them."""
    found = short_floats(rows).to_pylist()
    options: dict[str, Any] = {"ensure_ascii": False, "default": as_text}
    return "".join(f"{json.dumps(finite(row), **options)}\n" for row in found)


TEXTS = st.text(max_size=8) | st.text(
    st.sampled_from('a"\\/\n\r\t\x00\x1f\x7f\u2028é😀'), max_size=8
)
TIMES = st.datetimes() | st.datetimes().map(lambda each: each.replace(microsecond=0))
IN_UTC = TIMES.map(lambda each: each.replace(tzinfo=UTC))
NANOSECONDS = st.integers(-(2**62), 2**62)
DECIMALS = st.decimals(
    allow_nan=False, allow_infinity=False, places=2, min_value=-(10**6), max_value=10**6
)
PLAIN: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats()),
    (pa.float64(), st.integers(-(2**60), 2**60).map(float)),
    (pa.float64(), st.integers(-400, 400).map(lambda power: float(f"1.5e{power}"))),
    (pa.float32(), st.floats(width=32)),
    (pa.float16(), st.floats(width=16)),
    (pa.bool_(), st.booleans()),
    (pa.null(), st.none()),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.timestamp("us"), TIMES),
    (pa.timestamp("us", "UTC"), IN_UTC),
    (pa.timestamp("us", "Europe/Berlin"), st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))),
    (pa.timestamp("s"), st.datetimes().map(lambda each: each.replace(microsecond=0))),
    (pa.timestamp("ns"), NANOSECONDS | NANOSECONDS.map(lambda each: each - each % 1_000)),
    (pa.timestamp("ns", "UTC"), NANOSECONDS.map(lambda each: each - each % 10**9)),
    (pa.time64("us"), st.times()),
    (pa.duration("ms"), st.integers(-(10**12), 10**12)),
    (pa.decimal128(12, 2), DECIMALS),
]
COLUMN = st.sampled_from(PLAIN)


def inside(column: tuple[pa.DataType, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Columns of lists, objects and maps of what another one has."""
    kind, values = column[0], st.none() | column[1]
    return st.sampled_from(
        [
            (pa.list_(kind), st.lists(values, max_size=3)),
            (pa.large_list(kind), st.lists(values, max_size=3)),
            (pa.list_(kind, 2), st.lists(values, min_size=2, max_size=2)),
            (
                pa.struct([('a"\n', kind), ("b", pa.int8())]),
                st.fixed_dictionaries({'a"\n': values}),
            ),
            (pa.map_(pa.string(), kind), st.lists(st.tuples(TEXTS, values), max_size=2)),
        ]
    )


COLUMNS = st.lists(
    st.recursive(COLUMN, lambda deeper: deeper.flatmap(inside), max_leaves=2),
    min_size=1,
    max_size=3,
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows of any columns, in two chunks, of which one begins elsewhere than its buffers."""
    columns, length = draw(COLUMNS), draw(st.integers(1, 6))
    some = slice(draw(st.integers(0, 2)), draw(st.integers(3, 6)))
    arrays = [
        pa.array(draw(st.lists(st.none() | values, min_size=length, max_size=length)), kind)
        for kind, values in columns
    ]
    rows = pa.table(arrays, names=[f"{number}é\\" for number in range(len(arrays))])
    return pa.concat_tables([rows[some], rows])


@given(tables())
def test_lines_are_those_of_python(rows: pa.Table) -> None:
    assert SINK.encode(rows).decode() == row_by_row(rows)
    nested = rows.select([each.name for each in rows.schema if pa.types.is_nested(each.type)])
    written = [json.loads(line) for line in row_by_row(nested).split("\n")[:-1]]
    found = [{n: t and json.loads(t) for n, t in row.items()} for row in flat(nested).to_pylist()]
    assert found == written


@given(tables(), st.randoms())
def test_columns_are_read_as_python_reads_them(rows: pa.Table, random: Random) -> None:
    data = SINK.encode(rows)
    names = random.sample(rows.column_names, random.randint(1, rows.num_columns))
    found = SINK.select(data, names, rows.schema)
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    expected = columns_of(lines, names, rows.schema)
    assert found.combine_chunks().equals(expected.combine_chunks())
    assert found.schema == expected.schema


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_floats_have_the_form_that_python_gives_them(kind: type[np.floating[Any]]) -> None:
    random = np.random.default_rng(0)
    powers = np.array([float(f"1e{power}") for power in range(-323, 309)])
    with np.errstate(over="ignore", under="ignore"):
        near = np.concatenate([powers, 2.0 ** np.arange(-1074, 1024), [0, np.inf]]).astype(kind)
        some = random.integers(0, 256, 80_000, np.uint8).view(kind)
        usual = (random.normal(size=10_000) * 10.0 ** random.integers(-9, 18, 10_000)).astype(kind)
    parts = [np.nextafter(near, kind(0)), near, np.nextafter(near, kind(np.inf)), some, usual]
    found = np.concatenate([*parts, np.round(usual), np.round(usual, 2)])
    rows = pa.table({"x": np.concatenate([found, -found])})
    assert SINK.encode(rows).decode().split("\n") == row_by_row(rows).split("\n")


def test_columns_of_usual_types_take_python_nothing_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("tasks.kinds.sinks.json_texts.plain_texts")
    when = datetime(2026, 1, 31, 2, 3, 4, 5)
    rows = pa.table(
        {
            "id": [7, None],
            "text": ['"Zoë"\n', None],
            "score": pa.array([0.1, 1e-7], pa.float32()),
            "probabilities": [[1.0, 0.5, 1e-300], None],
            "entities": [[{"word": "a", "place": [1, 2]}, None], []],
            "embedding": pa.array([[0.1, 0.2], None], pa.list_(pa.float32(), 2)),
            "at": pa.array([when, when], pa.timestamp("us")),
            "in UTC": pa.array([when, None], pa.timestamp("ns", "UTC")),
            "day": pa.array([date(1, 1, 1), None]),
        }
    )
    expected = row_by_row(rows)
    assert SINK.encode(rows).decode() == expected
    CsvSink(path="/out").encode(rows)


@pytest.mark.parametrize("sink", [SINK, CsvSink(path="/out")], ids=repr)
def test_rows_of_many_calls_are_written_together(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"x": [{"a": number} for number in range(500)]})
    expected, lengths = sink.encode(rows), list[int]()

    def counted(values: pa.StructArray, end: str = "}") -> pa.Array:
        lengths.append(len(values))
        return object_texts(values, end)

    for module in ("json_texts", "jsonl"):
        monkeypatch.setattr(f"tasks.kinds.sinks.{module}.object_texts", counted)
    assert sink.encode(pa.concat_tables([rows[at : at + 1] for at in range(500)])) == expected
    assert set(lengths) == {500}


def test_bytes_that_are_no_text_are_no_lines() -> None:
    ends = pa.py_buffer(np.array([0, 1], np.int32))
    rows = pa.table({"x": pa.StringArray.from_buffers(1, ends, pa.py_buffer(b"\xff"))})
    with pytest.raises(UnicodeDecodeError):
        SINK.encode(rows)


def test_more_text_than_arrow_can_count_is_written_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.kinds.sinks.json_texts.LONGEST_ESCAPED", 3)
    rows = pa.table({"x": ["abc", '"']})
    assert SINK.encode(rows) == b'{"x": "abc"}\n{"x": "\\""}\n'


def test_fields_without_a_type_beside_single_floats_are_null() -> None:
    kind = pa.map_(pa.string(), pa.struct([("score", pa.float32()), ("mask", pa.null())]))
    rows = pa.table({"x": pa.array([[("a", {"score": 0.1})]] * 3, kind)}).slice(1)
    assert SINK.encode(rows) == b'{"x": [["a", {"score": 0.1, "mask": null}]]}\n' * 2
