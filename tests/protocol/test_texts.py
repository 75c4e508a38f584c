"""More paths than one array of texts can hold: 2 GiB together."""

import mmap

import numpy as np
import pyarrow as pa
import pytest

from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA
from tasks.protocol.stat_columns import SCHEMA, Stats

SPAN = 1_200_000_000


def long_texts(first: str, last: str) -> pa.Array:
    """Two texts, and 1.2 GB between them that belong to nothing and are never touched."""
    memory = mmap.mmap(-1, SPAN + 2, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:1], memory[-1:] = first.encode(), last.encode()
    offsets = np.array([0, 1, SPAN + 1, SPAN + 2], dtype=np.int32)
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(offsets), pa.py_buffer(memory)]
    return pa.Array.from_buffers(pa.string(), 3, buffers)


@pytest.fixture(scope="module")
def published() -> pa.Table:
    """Lines of a ledger; some have no path, which none of a real one has."""
    paths = pa.chunked_array([long_texts("a", "b"), long_texts("c", "d")])
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        paths.combine_chunks()
    same = {"version": 1, "line": "input", "identity": "v1", "run_id": "r"}
    columns = [
        paths if each.name == "path" else pa.repeat(pa.scalar(same.get(each.name), each.type), 6)
        for each in LINE_SCHEMA
    ]
    return pa.table(columns, schema=LINE_SCHEMA)


class AllOfOneKind(Snapshot):
    """A ledger whose lines need no sorting out, which would copy the texts."""

    def input_lines(self, line: str) -> pa.Table:
        return self.lines


def test_what_is_published_is_found(published: pa.Table) -> None:
    seen = AllOfOneKind(1, published)
    assert [seen.holds(pa.chunked_array([[path]])) for path in "dx"] == [True, False]
    assert len(seen.holders) == len(seen.inputs)


def test_what_is_published_is_left_out(published: pa.Table) -> None:
    listed = {"path": ["a", "d", "x"], "size": [1, 1, 1], "identity": ["v1", "v2", "v1"]}
    left = Stats(pa.table(listed, SCHEMA)).without(published.select(["path", "identity"]))
    assert [stat.path for stat in left] == ["d", "x"]
