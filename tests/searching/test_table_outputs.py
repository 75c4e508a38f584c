"""What is published into a table is searched as files are: by all vectors, and by an index."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tasks.errors import InvalidSpec
from tasks.searching.index import IndexedVectors, with_index
from tasks.searching.indexing import bring_up_to_date
from tasks.searching.published import PublishedVectors, published_vectors
from tasks.searching.scoring import unit
from tasks.spec import BatchInferenceSpec
from tests.searching.outputs import spec_at
from tests.tables.bench import Row, TableBench
from tests.tables.conftest import SINKS
from tests.tables.foreigners import COMPACT
from tests.tables.readers import frame_of

WIDTH = 4


def vacuum_delta(path: str) -> None:
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def vacuum_lance(path: str) -> None:
    import lance

    lance.dataset(path).cleanup_old_versions(timedelta(0))


VACUUM: dict[str, Callable[[str], None]] = {"delta": vacuum_delta, "lance": vacuum_lance}


@dataclass(frozen=True)
class SearchedTable:
    """A table and the spec that searches it."""

    spec: BatchInferenceSpec
    bench: TableBench

    def publish(self, key: str, inputs: dict[str, str]) -> None:
        """A run on inputs, three rows each; the vector of the second row is missing."""
        num_rows = 3 * len(inputs)
        random = np.random.default_rng(len(self.bench.ledger.look().entries))
        vectors = [*random.standard_normal((num_rows, WIDTH)).astype(np.float32)]
        vectors[1] = None
        embedding = pa.array(vectors, pa.list_(pa.float32(), WIDTH))
        self.bench.run(key, inputs, extra={"embedding": embedding})


@pytest.fixture(params=[*SINKS])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> SearchedTable:
    """An empty one of each format."""
    spec = spec_at(tmp_path, kind=request.param)
    return SearchedTable(spec, TableBench(spec.sink))


def assert_found(table: SearchedTable, vectors: PublishedVectors) -> None:
    """A search finds what is nearest of the rows that others read from the table."""
    query = unit([1, -2, 3, 0.5])
    rows = frame_of(table.bench).select("path", "identity", "row", "embedding").rows()
    scores: dict[Row, float] = {}
    for *row, embedding in rows:
        if embedding is not None:
            scores[tuple(row)] = float(unit(embedding) @ query)
    best = sorted(scores, key=lambda row: -scores[row])
    found = vectors.nearest(query, len(rows))
    assert [(row["path"], row["identity"], row["row"]) for row in found.rows] == best
    np.testing.assert_allclose(found.scores, [scores[row] for row in best], atol=1e-12)
    assert (found.num_searched, found.num_without) == (len(rows), len(rows) - len(scores))


def test_rows_that_leave_and_rows_that_come(table: SearchedTable) -> None:
    table.publish("k1", {"a": "v1", "b": "v1"})
    assert_found(table, published_vectors(table.spec))
    table.publish("k2", {"a": "v2", "c": "v1"})
    # The file in which the former rows of `a` were is still there, for readers of older versions.
    assert_found(table, published_vectors(table.spec))


def test_an_index_lies_beside_the_table_and_follows_it(table: SearchedTable) -> None:
    table.publish("k1", {"a": "v1", "b": "v1"})
    table.publish("k2", {"c": "v1"})
    before = table.bench.table.look("").version
    assert_found(table, bring_up_to_date(published_vectors(table.spec), 1.0))
    assert table.bench.table.look("").version == before
    table.publish("k3", {"a": "v2", "d": "v1"})
    more = published_vectors(table.spec)
    behind = with_index(more)
    assert isinstance(behind, IndexedVectors)
    assert len(behind.state.files.keys() & {file.path for file in more.files}) == 1
    assert_found(table, behind)
    renewed = bring_up_to_date(more, 1.0)
    assert renewed.state.files.keys() == {file.path for file in more.files}
    assert_found(table, renewed)


@pytest.mark.parametrize("table", ["delta", "lance"], indirect=True)
def test_files_that_are_gone_for_good_are_no_reason_to_search_again(table: SearchedTable) -> None:
    table.publish("k1", {"a": "v1"})
    table.publish("k2", {"b": "v1"})
    assert published_vectors(table.spec).changed_by_others == 0
    COMPACT[table.bench.kind](table.bench)
    vectors = published_vectors(table.spec)
    assert vectors.changed_by_others == 2
    assert_found(table, vectors)
    VACUUM[table.bench.kind](table.spec.sink.path)
    with pytest.raises(InvalidSpec, match=r"has lost a published file.*--replace-output"):
        vectors.nearest(unit(np.ones(WIDTH)), 3)
    with pytest.raises(InvalidSpec, match=r"has lost a published file.*--replace-output"):
        bring_up_to_date(vectors, 1.0)
