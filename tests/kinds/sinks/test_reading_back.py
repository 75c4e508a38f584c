"""Columns come back as they were written, from files and from the names of folders."""

import uuid
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InvalidSpec
from tasks.kinds.hive import folder_values, hive_folder
from tasks.kinds.sinks import CsvSink, JsonlSink, ParquetSink, Sink
from tasks.protocol.ids import as_ids
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.publishing.output_rows import (
    BYTES_READ_AHEAD,
    READERS,
    OutputFile,
    OutputReader,
)

SINKS: list[Sink] = [ParquetSink(path="/o"), JsonlSink(path="/o"), CsvSink(path="/o")]
ROWS = pa.table(
    {
        "text": ["007", "", None],
        "count": [1, None, 3],
        "score": pa.array([0.1, 2.0, None], pa.float32()),
        "is.odd": [True, None, False],
        "top": [["a", "b"], [], None],
        "is": pa.array([{"odd": 1}, None, {"odd": 2}]),
    }
)


@pytest.mark.parametrize("names", [["text"], ["is.odd", "count"], ["top", "score", "is"]])
@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_some_columns(sink: Sink, names: list[str]) -> None:
    found = sink.select(sink.encode(ROWS), names, ROWS.schema)
    assert found.column_names == names
    wanted = ROWS.select(names).to_pydict()
    for name, values in found.to_pydict().items():
        assert values == pytest.approx(wanted[name]) if name == "score" else values == wanted[name]


@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_first_rows(sink: Sink) -> None:
    data = sink.encode(ROWS)
    for num_rows in (0, 2, 4):
        found = sink.first_rows(data, num_rows).to_pylist()
        assert found == sink.decode(data).to_pylist()[:num_rows]


def test_of_lines_no_more_are_read_than_are_shown() -> None:
    sink = JsonlSink(path="/o")
    data = sink.encode(ROWS)
    assert sink.first_rows(data + b"no line\n" * 9, 3).equals(sink.decode(data))


def test_of_a_parquet_file_no_more_pages_are_read_than_are_shown() -> None:
    """A gigabyte of a file may be ten in memory, and a page of a report shows eight rows."""
    sink, rows = ParquetSink(path="/o"), pa.table({"x": np.arange(1_000_000)})
    data = bytearray(sink.encode(rows))
    data[len(data) // 2] ^= 1
    with pytest.raises(OSError, match="checksum"):
        sink.decode(bytes(data))
    assert sink.first_rows(bytes(data), 3).equals(rows.slice(0, 3))


@pytest.mark.parametrize("values", [[1, None], [True, None], [0.5, None], ["x", None]])
@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_a_lone_column(sink: Sink, values: list[Any]) -> None:
    rows = pa.table({"x": values})
    assert sink.select(sink.encode(rows), ["x"], rows.schema).to_pydict() == {"x": values}


@pytest.mark.parametrize("sink", SINKS[1:], ids=repr)
def test_values_of_extension_types(sink: Sink) -> None:
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(4.0).reshape(1, 2, 2))
    id_ = uuid.UUID(int=7)
    columns = {"id": pa.array([id_.bytes], pa.uuid()), "json": pa.array(["{}"], pa.json_())}
    rows = pa.table({**columns, "tensor": tensors, "x": [1]})
    found = sink.select(sink.encode(rows), rows.column_names, rows.schema).to_pylist()
    assert found == [{"id": str(id_), "json": "{}", "tensor": [0.0, 1.0, 2.0, 3.0], "x": 1}]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([["a", "b"]]),
        pa.array([{"top": ["a"]}]),
        pa.array(["a"]),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_files_with_and_without_values_have_the_same_columns(sink: Sink, values: pa.Array) -> None:
    schema = pa.schema([("x", values.type), ("y", pa.int64())])
    files = [pa.table([each, [1]], schema=schema) for each in (pa.nulls(1, values.type), values)]
    found = pa.concat_tables(sink.select(sink.encode(each), ["x"], schema) for each in files)
    assert found.to_pydict() == {"x": [None, *values.to_pylist()]}


@pytest.mark.parametrize("sink", SINKS[1:], ids=repr)
def test_a_map_comes_back_as_text(sink: Sink) -> None:
    kind = pa.map_(pa.string(), pa.int64())
    rows = pa.table({"x": pa.array([[("a", 1)], [], None], kind), "y": [1, 2, 3]})
    found = sink.select(sink.encode(rows), ["x"], rows.schema)
    assert found.to_pydict() == {"x": ['[["a", 1]]', "[]", None]}
    assert sink.decode(sink.encode(rows))["x"].to_pylist() == found["x"].to_pylist()


@pytest.mark.parametrize("sink", SINKS[1:], ids=repr)
def test_what_holds_maps_is_text_in_files_without_any_too(sink: Sink) -> None:
    """Else a preview and a verify could not put rows of several files together."""
    kind = pa.struct([("by", pa.map_(pa.string(), pa.int64()))])
    files = [pa.array([{"by": [("k", 1)]}], kind), pa.nulls(1, kind)]
    schema = pa.schema([("x", kind), ("y", pa.int64())])
    found = [sink.encode(pa.table([each, [1]], schema=schema)) for each in files]
    rows = pa.concat_tables(sink.select(each, ["x"], schema) for each in found)
    assert rows.to_pydict() == {"x": ['{"by": [["k", 1]]}', None]}


@given(values=st.dictionaries(st.text(min_size=1), st.none() | st.text(), max_size=3))
def test_folders_say_what_was_in_the_columns(values: dict[str, str | None]) -> None:
    values = {name.replace("%2F", ""): value for name, value in values.items()}
    values = {name: None if value == "__HIVE_DEFAULT_PARTITION__" else value
              for name, value in values.items() if name}  # fmt: skip
    assert folder_values("".join(map(hive_folder, values, values.values()))) == values


@pytest.fixture
def storage() -> FsspecStorage:
    return open_storage("memory://")[0]


@pytest.mark.parametrize("sink", SINKS, ids=repr)
@pytest.mark.parametrize("by", [[], ["day"], ["n", "flag"], ["day", "n", "flag", "x"]], ids=str)
def test_rows_come_back_with_the_columns_that_became_folders(
    sink: Sink, by: list[str], storage: FsspecStorage
) -> None:
    sink = sink.model_copy(update={"partition_by": by})
    rows = pa.table(
        {
            "day": [date(2026, 1, 1), date(2026, 1, 2), None] * 8,
            "n": [1, 2] * 12,
            "flag": [True, False, None] * 8,
            "x": [float(number % 6) for number in range(24)],
            "left out": ["z"] * 24,
        }
    )
    files = []
    for number, part in enumerate(sink.parts(rows, as_ids(range(24)))):
        storage.write(f"/o/{number}", part.data)
        files.append(OutputFile(f"/o/{number}", len(part.ids), part.partition))
    names = ["day", "n", "flag", "x"]
    reader = OutputReader(storage, sink, rows.schema, names)
    found = [row for table in reader.stream(files) for row in table.to_pylist()]
    assert sorted(map(comparable, found)) == sorted(map(comparable, rows.select(names).to_pylist()))


def comparable(row: dict[str, Any]) -> str:
    """A row as text: dates are text in CSV and JSON."""
    return str(sorted((name, str(value)) for name, value in row.items()))


@pytest.mark.parametrize(("size", "most"), [(None, READERS), (BYTES_READ_AHEAD, 1)])
def test_few_files_are_in_memory_at_a_time(
    storage: FsspecStorage, size: int | None, most: int
) -> None:
    """Of large ones, which may have a gigabyte each, one."""
    fetched: list[str] = []

    class Watched(FsspecStorage):
        def read(self, path: str) -> bytes:
            fetched.append(path)
            return super().read(path)

    sink, rows = SINKS[0], ROWS.select(["text"])
    for number in range(40):
        storage.write(f"/few/{number}", sink.encode(rows))
    files = [OutputFile(f"/few/{number}", 3, size=size) for number in range(40)]
    reader = OutputReader(Watched(storage.filesystem), sink, rows.schema, ["text"])
    for taken, _ in enumerate(reader.stream(files), 1):
        assert len(fetched) < taken + most
    assert sorted(fetched) == sorted(file.path for file in files), "each file once"


@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_decimals_are_decimals_again(sink: Sink, storage: FsspecStorage) -> None:
    """As text, a label of 1.00 would be another one than a prediction of 1."""
    values = [Decimal("1.00"), None, Decimal("-0.25"), Decimal("0.00")]
    rows = pa.table({"price": pa.array(values, pa.decimal128(12, 2)), "x": [*range(4)]})
    storage.write("/prices", sink.encode(rows))
    reader, file = OutputReader(storage, sink, rows.schema, ["price"]), OutputFile("/prices", 4)
    for found in (reader.read(file), *reader.pieces(file, 10)):
        assert found == rows.select(["price"])


@pytest.mark.parametrize("sink", SINKS, ids=repr)
@pytest.mark.parametrize("value", [time(1, 30), timedelta(days=1, seconds=5)], ids=repr)
def test_folders_of_times_of_day_and_of_spans_are_read(
    sink: Sink, storage: FsspecStorage, value: Any
) -> None:
    """Arrow makes neither of text: a preview failed, and a gate when all was predicted."""
    sink = sink.model_copy(update={"partition_by": ["at"]})
    rows = pa.table({"at": [value, None], "x": [1, 2]})
    found = []
    for number, part in enumerate(sink.parts(rows, as_ids(range(2)))):
        storage.write(f"/times/{number}", part.data)
        file = OutputFile(f"/times/{number}", 1, part.partition)
        found += OutputReader(storage, sink, rows.schema, ["at", "x"]).read(file)["at"].to_pylist()
    assert found == [str(value), None]


@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_ids_are_no_folders(sink: Sink) -> None:
    rows = pa.table({"id": pa.array([uuid.UUID(int=7).bytes], pa.uuid()), "x": [1]})
    sink = sink.model_copy(update={"partition_by": ["id"]})
    with pytest.raises(InvalidSpec, match=r"sink\.partition_by: \{'id': .* cannot be folders"):
        sink.parts(rows, as_ids(range(1)))
