"""What goes into a file comes out of it, and rows are taken out without touching the others."""

import csv
import io
import json
import re
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.errors import InvalidSpec, SchemaMismatch
from tasks.kinds.sinks import CsvSink, DeltaSink, JsonlSink, LanceSink, ParquetSink, Sink
from tasks.kinds.sinks.partitions import group_rows
from tasks.protocol.ids import as_ids

SINKS: list[Sink] = [
    ParquetSink(path="/out"),
    JsonlSink(path="/out"),
    CsvSink(path="/out"),
    CsvSink(path="/out", delimiter=";"),
]
TEXTS = st.text(st.sampled_from('ab,;"\n\r\t \\{}[]é\u2028\x00'), max_size=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.none() | TEXTS,
            "number": st.none() | st.floats(width=32),
            "list": st.none() | st.lists(TEXTS, max_size=2),
        }
    ),
    min_size=1,
    max_size=8,
)
SCHEMA = pa.schema(
    [("text", pa.string()), ("number", pa.float32()), ("list", pa.list_(pa.string()))]
)


@settings(max_examples=50)
@given(rows=ROWS, data=st.data())
@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_dropping_rows_keeps_exactly_the_others(
    sink: Sink, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    kept, wanted = sink.drop_rows(sink.encode(table), keep), table.filter(pa.array(keep))
    if isinstance(sink, ParquetSink):
        # NaN does not equal itself, its text does.
        assert repr(sink.decode(kept).to_pylist()) == repr(wanted.to_pylist())
    else:
        assert kept == sink.encode(wanted)


@given(rows=ROWS)
def test_jsonl_is_read_by_others(rows: list[dict[str, Any]]) -> None:
    data = JsonlSink(path="/out").encode(pa.Table.from_pylist(rows, SCHEMA))
    found = [json.loads(line) for line in data.decode().split("\n")[:-1]]
    assert [(row["text"], row["list"]) for row in found] == [
        (row["text"], row["list"]) for row in rows
    ]


@given(rows=ROWS)
def test_csv_is_read_by_others(rows: list[dict[str, Any]]) -> None:
    data = CsvSink(path="/out").encode(pa.Table.from_pylist(rows, SCHEMA))
    header, *found = csv.reader(io.StringIO(data.decode(), newline=""))
    assert header == ["text", "number", "list"]
    assert [row[0] for row in found] == [row["text"] or "" for row in rows]
    assert [row[2] and json.loads(row[2]) for row in found] == [
        "" if row["list"] is None else row["list"] for row in rows
    ]


@given(values=st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=5))
def test_csv_has_no_blank_line(values: list[int | None]) -> None:
    data = CsvSink(path="/out").encode(pa.table({"n": pa.array(values, pa.int64())}))
    assert b"\n\n" not in data
    assert len(list(csv.reader(io.StringIO(data.decode())))) == len(values) + 1


def test_jsonl_values() -> None:
    rows = pa.table(
        {
            "when": pa.array([datetime(2026, 1, 31, 2, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "embedding": pa.array([[0.1, float("nan")]], pa.list_(pa.float32(), 2)),
            "score": pa.array([float("inf")]),
            "inside": pa.array([{"a": [0.2]}], pa.struct([("a", pa.list_(pa.float32()))])),
            "name": ["Zoë"],
        }
    )
    assert JsonlSink(path="/out").encode(rows).decode() == (
        '{"when": "2026-01-31T02:00:00+00:00", "embedding": [0.1, null], "score": null, '
        '"inside": {"a": [0.2]}, "name": "Zoë"}\n'
    )


def test_jsonl_values_that_numbers_stand_for() -> None:
    """Columns of few values are often kept so, as Parquet does those that Arrow has written."""
    scores = pa.array([0.1, 0.1, None], pa.float32()).dictionary_encode()
    names = pa.array(["a", "b", "a"]).dictionary_encode()
    inside = pa.StructArray.from_arrays([scores, names], ["score", "name"])
    rows = pa.table({"score": scores, "inside": inside})
    assert JsonlSink(path="/out").encode(rows).decode().splitlines() == [
        '{"score": 0.1, "inside": {"score": 0.1, "name": "a"}}',
        '{"score": 0.1, "inside": {"score": 0.1, "name": "b"}}',
        '{"score": null, "inside": {"score": null, "name": "a"}}',
    ]


@pytest.mark.parametrize("sink", SINKS[1:3], ids=repr)
@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.binary()), pa.large_binary()], ids=str)
def test_bytes_are_refused(sink: Sink, kind: pa.DataType) -> None:
    rows = pa.table({"x": [1], "image": pa.array([None], kind)})
    with pytest.raises(SchemaMismatch, match=r"columns \['image'\] contain bytes.*keep_columns"):
        sink.encode(rows)


def test_a_time_that_json_cannot_have_is_refused() -> None:
    rows = pa.table({"until": pa.array([300_000_000_000_000_000], pa.timestamp("us"))})
    with pytest.raises(SchemaMismatch, match=r"a time cannot be written as JSON.*parquet"):
        JsonlSink(path="/out").encode(rows)


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ms"), pa.date32()])
def test_a_time_that_no_calendar_has_is_not_written_as_a_remark(kind: pa.DataType) -> None:
    few = 20_000_000 if kind == pa.date32() else 2**62
    number = pa.int32() if kind == pa.date32() else pa.int64()
    rows = pa.table({"x": ["<value out of range: 1>"], "t": pa.array([few], number).cast(kind)})
    with pytest.raises(SchemaMismatch, match="column 't' has a time outside the calendar"):
        CsvSink(path="/out").encode(rows)
    assert b"<value out of range: 1>" in CsvSink(path="/out").encode(rows.select(["x"]))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_seconds_whatever_their_unit(unit: str) -> None:
    took = pa.array([timedelta(seconds=90), None], pa.duration(unit))
    rows = pa.table({"took": took, "x": [1, 2]})
    assert CsvSink(path="/out").encode(rows) == b'"took","x"\n90,1\n,2\n'
    assert json.loads(JsonlSink(path="/out").encode(rows).splitlines()[0])["took"] == 90


@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_decode(sink: Sink) -> None:
    rows = pa.table({"n": [1, None, 3], "text": ["a,\n;b", "", None], "x": [0.5, 1.5, None]})
    assert sink.decode(sink.encode(rows)).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_partitions_are_folders(sink: Sink) -> None:
    sink = sink.model_copy(update={"partition_by": ["day"]})
    rows = pa.table({"x": [1, 2, 3], "day": ["a/b", None, "a/b"]})
    parts = {part.partition: part for part in sink.parts(rows, as_ids([7, 8, 9]))}
    assert set(parts) == {"day=a%2Fb/", "day=__HIVE_DEFAULT_PARTITION__/"}
    part = parts["day=a%2Fb/"]
    assert part.ids.tolist() == [7, 9]
    assert sink.decode(part.data).to_pydict() == {"x": [1, 3]}
    assert part.suffix == sink.suffix


@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_partitions_hold_each_row_once_and_stay_in_the_folder(sink: Sink, tmp_path: Path) -> None:
    values = ["a/b", "..", "../..", ".", "a b", None, "/etc", "a\\b", "a=b", "%2F", "x\ny", "a/b"]
    rows = pa.table({"key": values, "id": list(range(len(values)))})
    sink = sink.model_copy(update={"partition_by": ["key"]})
    seen = {}
    for part in sink.parts(rows, as_ids(range(len(values)))):
        (folder,) = PurePosixPath(part.partition).parts
        assert (tmp_path / folder).resolve().parent == tmp_path.resolve()
        name = unquote(folder.removeprefix("key="))
        assert sink.decode(part.data)["id"].to_pylist() == part.ids.tolist()
        seen.update(dict.fromkeys(part.ids.tolist(), name))
    expected = ["__HIVE_DEFAULT_PARTITION__" if each is None else each for each in values]
    assert [seen[row] for row in range(len(values))] == expected


@pytest.mark.parametrize(
    ("output", "value", "is_fine"),
    [
        ("/out", "x" * 251, True),
        ("/out", "x" * 252, False),
        ("/out", "\u65e5" * 30, False),
        ("file:///out", "x" * 252, False),
        ("s3://bucket/out", "x" * 252, True),
        ("s3://bucket/out", "x" * 900, False),
    ],
)
def test_a_folder_that_no_file_can_be_moved_into_is_refused(
    output: str, value: str, is_fine: bool
) -> None:
    sink = ParquetSink(path=output, partition_by=["key"])
    rows = pa.table({"key": ["a", value], "id": [0, 1]})
    if is_fine:
        assert len(sink.parts(rows, as_ids([0, 1]))) == 2
        return
    with pytest.raises(InvalidSpec, match=r"sink\.partition_by.* a name of \d+ bytes, but at most"):
        sink.parts(rows, as_ids([0, 1]))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, -0.0, float("nan"), 1.5, None]),
            st.sampled_from(["a", "", None]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(0, 12),
    st.booleans(),
)
def test_rows_are_grouped_by_the_values_as_they_are(
    rows: list[tuple[object, ...]], cut: int, has_categories: bool
) -> None:
    numbers, texts, truths = zip(*rows, strict=True) if rows else ((), (), ())
    words = pa.array(texts, pa.string())
    keys = pa.table(
        {
            "a.b": pa.array(numbers, pa.float64()),
            "text": words.dictionary_encode() if has_categories else words,
            "truth": pa.array(truths, pa.bool_()),
        }
    )
    groups = dict[str, list[int]]()
    for row, values in enumerate(rows):
        groups.setdefault(repr(values), []).append(row)  # a NaN is no other one's equal
    found = group_rows(pa.concat_tables([keys.slice(0, cut), keys.slice(cut)]))
    assert [(repr(tuple(values)), at.tolist()) for values, at in found] == [*groups.items()]


@pytest.mark.parametrize("name", ["key", "a.b", "a/../up", "row"])
def test_partition_by_odd_numbers_and_names_loses_no_row(name: str) -> None:
    rows = pa.table({name: [1.5, float("nan"), -0.0, 0.0, None], "id": [0, 1, 2, 3, 4]})
    sink = ParquetSink(path="/out", partition_by=[name])
    parts = sink.parts(rows, as_ids(range(5)))
    assert sorted(row for part in parts for row in part.ids.tolist()) == [0, 1, 2, 3, 4]
    assert all(sink.decode(part.data)["id"].to_pylist() == part.ids.tolist() for part in parts)
    assert all(part.partition.count("/") == 1 for part in parts)


@pytest.mark.parametrize("sink", SINKS, ids=repr)
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1], [2]], pa.list_(pa.int64())),
        ([[1.0], [2.0]], pa.list_(pa.float32(), 1)),
        ([{"a": 1}, {"a": 2}], pa.struct([("a", pa.int64())])),
        ([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        ([b"a", b"b"], pa.binary()),
        ([b"a", b"b"], pa.large_binary()),
    ],
    ids=str,
)
def test_a_column_that_cannot_be_folders_is_named(sink: Sink, values: Any, kind: Any) -> None:
    sink = sink.model_copy(update={"partition_by": ["key"]})
    rows = pa.table({"key": pa.array(values, kind), "id": [0, 1]})
    with pytest.raises(InvalidSpec, match=r"sink\.partition_by: \{'key': .* cannot be folders"):
        sink.parts(rows, as_ids([0, 1]))


@pytest.mark.parametrize(
    ("number", "kind", "spelled"),
    [
        (2_932_897, pa.date32(), "10000-01-01"),
        (-719_528, pa.date32(), "0000-01-01"),
        (253_402_300_800, pa.timestamp("s"), "10000-01-01 00:00:00"),
        (253_402_300_800 * 10**6, pa.timestamp("us", "UTC"), "10000-01-01 00:00:00.000000Z"),
        (1 << 60, pa.duration("s"), str(1 << 60)),
    ],
    ids=str,
)
def test_a_time_that_python_has_not_is_named_with_its_column(
    number: int, kind: pa.DataType, spelled: str
) -> None:
    times = pa.array([0, number], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    rows = pa.table({"place": ["a", "b"], "when": times, "id": [0, 1]})
    sink = ParquetSink(path="/out", partition_by=["place", "when"])
    said = rf"sink\.partition_by: \{{'when': '{re.escape(spelled)}'\}} .* correct it in a step"
    with pytest.raises(InvalidSpec, match=said):
        sink.parts(rows, as_ids([0, 1]))


@pytest.mark.parametrize("sink", SINKS, ids=repr)
@pytest.mark.parametrize("by", [[], ["x"]])
def test_no_rows_give_no_part(sink: Sink, by: list[str]) -> None:
    sink = sink.model_copy(update={"partition_by": by})
    rows = pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.string())})
    assert sink.parts(rows, as_ids([])) == []


def test_partition_column_must_be_there() -> None:
    for name in ("_day", ".day", "a=b"):  # readers would find no row, or not this column
        with pytest.raises(
            ValidationError, match=rf"partition_by\n.*'{re.escape(name)}' would make"
        ):
            ParquetSink(path="/out", partition_by=["x", name])
        assert DeltaSink(path="/out", partition_by=[name]).partition_by == [name]
    with pytest.raises(InvalidSpec, match=r"sink.partition_by: \['day'\] are not among \['x'\]"):
        ParquetSink(path="/out", partition_by=["day"]).parts(pa.table({"x": [1]}), as_ids([1]))
    null = pa.table({"x": [1], "key": ["__HIVE_DEFAULT_PARTITION__"]})
    with pytest.raises(InvalidSpec, match=r"means a missing value: replace it"):
        ParquetSink(path="/out", partition_by=["key"]).parts(null, as_ids([1]))
    many = pa.table({"x": range(1_001)})
    with pytest.raises(
        InvalidSpec, match=r"sink.partition_by: \['x'\] makes 1001 folders for 1001"
    ):
        ParquetSink(path="/out", partition_by=["x"]).parts(many, as_ids(range(1_001)))
    waits = ParquetSink(path="/out", partition_by=["x"], rows_per_file=100_100)
    rows = many.append_column("y", many["x"])
    assert len(waits.parts(rows, as_ids(range(1_001)))) == 1_001


@pytest.mark.parametrize("delimiter", ['"', "", ",,", "é", *" -+.:_/aeN0\n"])
def test_what_values_without_quotes_may_hold_is_no_delimiter(delimiter: str) -> None:
    with pytest.raises(ValidationError, match="delimiter"):
        CsvSink(path="/out", delimiter=delimiter)


@pytest.mark.parametrize("delimiter", [*",;|\t~^"])
def test_values_without_quotes_stay_apart(delimiter: str) -> None:
    when = pa.array([datetime(2026, 1, 31, 2, 3, 4, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    rows = pa.table({"when": when, "day": when.cast(pa.date32()), "x": [-1.5e-300], "is": [True]})
    data = CsvSink(path="/out", delimiter=delimiter).encode(rows)
    found = [*csv.reader(io.StringIO(data.decode()), delimiter=delimiter)]
    values = ["2026-01-31 02:03:04.000005Z", "2026-01-31", "-1.5e-300", "true"]
    assert found == [["when", "day", "x", "is"], values]


def test_rows_are_dropped_in_little_more_memory_than_the_file_takes() -> None:
    sink = CsvSink(path="/out")
    data = sink.encode(pa.table({"text": ["x" * 100_000] * 100}))
    keep = np.arange(100) > 0
    tracemalloc.start()
    try:
        sink.drop_rows(data, keep)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(data)


@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_files_without_a_column_are_refused(sink: Sink) -> None:
    """They would have no row either, and the records say that they have."""
    sink = sink.model_copy(update={"partition_by": ["key"]})
    with pytest.raises(InvalidSpec, match=r"sink\.partition_by.* leaves no column for the files"):
        sink.parts(pa.table({"key": ["a", "b"]}), as_ids([0, 1]))


@pytest.mark.parametrize("sink", [ParquetSink, DeltaSink, LanceSink])
def test_objects_without_any_key_are_refused_by_what_cannot_keep_them(
    tmp_path: Path, sink: type[Sink]
) -> None:
    nothing = pa.struct([])
    for kind in (nothing, pa.list_(nothing), pa.struct([("x", nothing)])):
        schema = pa.schema([("id", pa.int64()), ("meta", kind)])
        with pytest.raises(SchemaMismatch, match=r"'meta'.* leave them out"):
            sink(path=str(tmp_path / "out")).schema_for(schema)
        assert JsonlSink(path="/out").schema_for(schema) == schema
