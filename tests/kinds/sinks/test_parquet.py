"""Parquet files hold dictionaries of texts, however deep, and of nothing else."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.kinds.sinks import ParquetSink


def test_only_texts_have_dictionaries() -> None:
    text = pa.string()
    columns: dict[str, tuple[pa.DataType, Any]] = {
        "id": (pa.int64(), 1),
        "score": (pa.float32(), 0.5),
        "embedding": (pa.list_(pa.float32(), 2), [0.5, 0.25]),
        "image": (pa.binary(), b"\xff\xd8"),
        "a.b": (text, "x"),
        "label": (pa.dictionary(pa.int8(), text), "cat"),
        "labels": (pa.list_(text), ["cat", "dog"]),
        "pair": (pa.list_(text, 2), ["cat", "dog"]),
        "nested": (
            pa.struct({"x": text, "y": pa.list_(pa.struct({"z": text, "n": pa.int8()}))}),
            {"x": "q", "y": [{"z": "r", "n": 1}]},
        ),
        "tags": (pa.map_(text, pa.int64()), [("k", 1)]),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    rows = pa.Table.from_pylist([{name: value for name, (_, value) in columns.items()}] * 9, schema)
    sink = ParquetSink(path="/out")
    data = sink.encode(rows)
    assert sink.decode(data).equals(rows)

    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    assert {each.path_in_schema for each in chunks if each.has_dictionary_page} == {
        "a.b",
        "label",
        "labels.list.element",
        "pair.list.element",
        "nested.x",
        "nested.y.list.element.z",
        "tags.key_value.key",
    }


@pytest.mark.parametrize("read", ["decode", "select", "pieces"])
def test_a_bit_that_has_changed_is_told(read: str) -> None:
    sink, rows = ParquetSink(path="/o", compression="none"), pa.table({"x": range(1_000)})
    data = bytearray(sink.encode(rows))

    def rows_again() -> pa.Table:
        if read == "decode":
            return sink.decode(bytes(data))
        if read == "select":
            return sink.select(bytes(data), ["x"], rows.schema)
        return pa.concat_tables(sink.pieces(io.BytesIO(data), ["x"], rows.schema, 100))

    assert rows_again() == rows
    data[len(data) // 2] ^= 1
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        rows_again()
