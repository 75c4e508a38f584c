"""Searching published files against plain NumPy over all of their rows."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec, StaleLedger
from tasks.searching import published as searched
from tasks.searching.matrix import vector_column
from tasks.searching.scoring import unit
from tests.s3_server import S3
from tests.searching.outputs import published, spec_at

WIDTH = 6
EMBEDDING = pa.list_(pa.float32(), WIDTH)
PARTED = ["parquet", "jsonl", "csv", "delta", "iceberg"]
"""Sinks that part rows by a column."""


def tables(count: int = 5, rows: int = 40) -> list[pa.Table]:
    """Rows with vectors, of which some are missing, all zeros, or those of other rows."""
    random = np.random.default_rng(0)
    pool = random.standard_normal((60, WIDTH)).astype(np.float32)
    made = []
    for number in range(count):
        vectors: list[Any] = list(pool[random.integers(0, len(pool), rows)])
        vectors[3], vectors[7] = None, np.zeros(WIDTH, np.float32)
        made.append(
            pa.table(
                {
                    "id": [number * rows + row for row in range(rows)],
                    "kind": [("even", "odd")[row % 2] for row in range(rows)],
                    "embedding": pa.array(vectors, EMBEDDING),
                }
            )
        )
    return made


def brute_force(rows: list[dict[str, Any]], query: Any, count: int) -> list[tuple[int, float]]:
    """Ids and scores of the best; of equals the first."""
    usable = [row for row in rows if row["embedding"] is not None and any(row["embedding"])]
    vectors = np.array([row["embedding"] for row in usable], np.float64)
    scores = np.round((vectors / np.linalg.norm(vectors, axis=1, keepdims=True)) @ query, 12)
    order = np.argsort(-scores, kind="stable")[:count]
    return [(usable[at]["id"], scores[at]) for at in order.tolist()]


@pytest.mark.parametrize(
    ("kind", "partition_by"),
    [*product([*PARTED, "lance"], [[]]), *product(PARTED, [["kind"]])],
)
def test_the_best_rows_of_all_files(
    tmp_path: Path, kind: str, partition_by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searched, "BYTES_SCORED_AT_ONCE", 4 * WIDTH * 7)  # 7 rows
    monkeypatch.setattr(searched, "ROWS_LOOKED_UP_AT_ONCE", 9)
    vectors = published(spec_at(tmp_path, kind=kind, partition_by=partition_by), tables())
    query = unit([1, -2, 0, 1, 2, 0])
    found = vectors.nearest(query, 60)
    rows = [row for table in tables() for row in table.to_pylist()]
    if partition_by:  # a file for each value, one after the other
        rows.sort(key=lambda row: (row["id"] // 80, row["kind"], row["id"]))
    wanted = brute_force(rows, query, 60)
    assert [row["id"] for row in found.rows] == [each for each, _ in wanted]
    np.testing.assert_allclose(found.scores, [score for _, score in wanted], atol=1e-12)
    assert {row["kind"] == ("even", "odd")[row["id"] % 2] for row in found.rows} == {True}
    assert set(found.rows[0]) == {"id", "kind"}
    assert (found.num_searched, found.num_without) == (200, 10)


def test_more_are_asked_for_than_there_are(tmp_path: Path) -> None:
    found = published(spec_at(tmp_path), tables(1)).nearest(unit(np.ones(WIDTH)), 1_000)
    assert len(found.rows) == len(found.scores) == 38


def test_lists_of_any_length_and_doubles(tmp_path: Path) -> None:
    rows = [[1.0, 0.0], [0.0], None, [1.0, 1.0], [], [None, 1.0]]
    table = pa.table({"id": range(6), "made": pa.array(rows, pa.list_(pa.float64()))})
    found = published(spec_at(tmp_path), [table], "made").nearest(unit([1, 0]), 5)
    assert [row["id"] for row in found.rows] == [0, 3]
    assert found.scores == pytest.approx([1, 0.5**0.5])
    assert found.num_without == 4


def test_an_output_that_holds_nothing_else(tmp_path: Path) -> None:
    found = published(spec_at(tmp_path), [tables(1)[0].select(["embedding"])]).nearest(
        unit(np.ones(WIDTH)), 3
    )
    assert found.rows == [{}, {}, {}]


def test_a_row_with_a_time_that_python_does_not_know_is_found(tmp_path: Path) -> None:
    rows = tables(1)[0].slice(0, 1).select(["embedding"])
    rows = rows.append_column("at", pa.array([2**62], pa.timestamp("us")))
    found = published(spec_at(tmp_path), [rows]).nearest(unit(np.ones(WIDTH)), 1)
    assert found.rows == [{"at": f"{2**62} as timestamp[us]"}]


def test_large_files_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = published(spec_at(tmp_path), tables())
    whole = vectors.nearest(unit(np.ones(WIDTH)), 9)
    monkeypatch.setattr("tasks.publishing.output_rows.SMALL_BYTES", 0)
    assert vectors.nearest(unit(np.ones(WIDTH)), 9) == whole


@pytest.mark.s3
@pytest.mark.parametrize("small_bytes", [0, 8 << 20])
def test_files_in_an_object_store(
    s3: S3, tmp_path: Path, small_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = published(spec_at(tmp_path), tables())
    there = {"path": s3.url(f"search-{small_bytes}"), "storage_options": s3.storage_options}
    monkeypatch.setattr("tasks.publishing.output_rows.SMALL_BYTES", small_bytes)
    query = unit(np.ones(WIDTH))
    found = published(spec_at(tmp_path, **there), tables()).nearest(query, 9)
    assert found == here.nearest(query, 9)


def test_a_query_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="each vector of 'embedding' has 6"):
        published(spec_at(tmp_path), tables(1)).nearest(unit([1, 2]), 3)


def test_a_file_that_goes_meanwhile_is_said_so(tmp_path: Path) -> None:
    vectors = published(spec_at(tmp_path), tables())
    Path(vectors.files[-1].path).unlink()
    with pytest.raises(StaleLedger, match="search again"):
        vectors.nearest(unit(np.ones(WIDTH)), 3)


def test_nothing_is_published(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="has no published rows"):
        searched.published_vectors(spec_at(tmp_path))


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ({"kind": "jsonl"}, "sink.kind: 'jsonl' does not write kind=even/part-1-0-0.parquet"),
        ({"partition_by": []}, r"sink.partition_by: \[\] are not the folders of kind=even/part-"),
        ({"partition_by": ["id"]}, r"sink.partition_by: \['id'\] are not the folders of kind=even"),
    ],
)
def test_the_spec_is_that_of_the_output(tmp_path: Path, sink: Any, problem: str) -> None:
    """Else its files are read as what they are not."""
    right = spec_at(tmp_path, partition_by=["kind"])
    paths = sorted(published(right, tables()).seen.files)
    searched.refuse_other_sink(right, paths)
    with pytest.raises(InvalidSpec, match=problem):
        searched.refuse_other_sink(spec_at(tmp_path, **{"partition_by": ["kind"], **sink}), paths)


@pytest.mark.parametrize(
    ("columns", "wanted", "found"),
    [
        (["embedding", "other"], None, "embedding"),
        (["embedding", "other"], "other", "other"),
        (["prediction"], None, "prediction"),
    ],
)
def test_the_column_of_vectors(columns: list[str], wanted: str | None, found: str) -> None:
    schema = pa.schema([("id", pa.int64()), *((name, EMBEDDING) for name in columns)])
    assert vector_column(schema, wanted) == found


@pytest.mark.parametrize(
    ("columns", "wanted", "problem"),
    [
        (
            ["a", "b"],
            None,
            r"several columns of this output have vectors: choose one of \['a', 'b'\]",
        ),
        (["a"], "id", r"'id' must be a column with vectors: \['a'\]"),
        ([], "id", "no column of this output has vectors: search the"),
        ([], None, "no column of this output has vectors: search the"),
    ],
)
def test_no_column_of_vectors(columns: list[str], wanted: str | None, problem: str) -> None:
    schema = pa.schema([("id", pa.int64()), *((name, EMBEDDING) for name in columns)])
    with pytest.raises(InvalidSpec, match=f"^column: {problem}"):
        vector_column(schema, wanted)
