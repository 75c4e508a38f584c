"""An index of published vectors: what it finds of the exact answer, and what it gets right."""

import sys
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec, StaleLedger
from tasks.searching import indexing
from tasks.searching.index import IndexedVectors, IndexPlace, with_index
from tasks.searching.indexing import bring_up_to_date
from tasks.searching.published import PublishedVectors
from tasks.searching.scoring import Vector, unit
from tests.s3_server import S3
from tests.searching.outputs import published, spec_at

WIDTH, CLUSTERS = 16, 40


def tables(count: int, rows: int = 500) -> list[pa.Table]:
    """Vectors around some centres, as embeddings lie; some rows have none."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((CLUSTERS, WIDTH))
    made = []
    for number in range(count):
        near = centres[random.integers(0, CLUSTERS, rows)]
        vectors = list((near + 0.5 * random.standard_normal((rows, WIDTH))).astype(np.float32))
        ids = [number * rows + row for row in range(rows)]
        listed = [None if each % 50 == 3 else vectors[row] for row, each in enumerate(ids)]
        listed[7] = np.zeros(WIDTH, np.float32)
        made.append(
            pa.table({"id": ids, "embedding": pa.array(listed, pa.list_(pa.float32(), WIDTH))})
        )
    return made


def queries(count: int) -> list[Vector]:
    return [unit(each) for each in np.random.default_rng(1).standard_normal((count, WIDTH))]


@pytest.fixture(autouse=True)
def _few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find out how much of an index to look at."""
    monkeypatch.setattr("tasks.searching.recall.QUERIES", 16)


def recall(exact: PublishedVectors, indexed: PublishedVectors, count: int = 10) -> float:
    """Share of the exact answer that the index finds; its scores are the exact ones."""
    shares = []
    for query in queries(count):
        wanted, found = exact.nearest(query, 10), indexed.nearest(query, 10)
        assert (found.num_searched, found.num_without) == (wanted.num_searched, wanted.num_without)
        scores = dict(zip([row["id"] for row in wanted.rows], wanted.scores, strict=True))
        same = [row["id"] for row in found.rows if row["id"] in scores]
        assert len({row["id"] for row in found.rows}) == 10
        for row, score in zip(found.rows, found.scores, strict=True):
            assert scores.get(row["id"], score) == score
        shares.append(len(same) / 10)
    return float(np.mean(shares))


def test_what_is_found_of_the_exact_answer(tmp_path: Path) -> None:
    vectors = published(spec_at(tmp_path), tables(6))
    assert with_index(vectors) is vectors
    rough, fine = bring_up_to_date(vectors, 0.5), bring_up_to_date(vectors, 0.99)
    assert rough.state.looked_at < fine.state.looked_at < fine.state.groups
    assert rough.state.recall >= 0.5
    assert fine.state.recall >= 0.99
    used = with_index(vectors)
    assert isinstance(used, IndexedVectors)
    assert used.state == fine.state
    # These queries are like none of the published vectors: the hardest there are.
    assert recall(vectors, used, 30) >= 0.8
    all_of_it = replace(fine, state=replace(fine.state, looked_at=fine.state.groups))
    assert recall(vectors, all_of_it, 30) == 1.0


def test_as_many_rows_are_found_as_are_asked_for(tmp_path: Path) -> None:
    """More than are in the groups that a search looks at, of those that there are."""
    vectors = published(spec_at(tmp_path), tables(1))
    rough = bring_up_to_date(vectors, 0.1)
    query = queries(1)[0]
    for count in (300, 1_000):
        exact = vectors.nearest(query, count)
        assert len(rough.nearest(query, count).rows) == len(exact.rows)
    assert rough.state.looked_at < rough.state.groups


def test_an_index_that_somebody_has_deleted_is_not_used(tmp_path: Path) -> None:
    vectors = published(spec_at(tmp_path), tables(2))
    bring_up_to_date(vectors, 0.5)
    rmtree(IndexPlace(vectors.spec, vectors.column).url)
    assert with_index(vectors) is vectors
    assert isinstance(bring_up_to_date(vectors, 0.5), IndexedVectors)


def test_files_that_came_and_went_since(tmp_path: Path) -> None:
    spec = spec_at(tmp_path)
    bring_up_to_date(published(spec, tables(2)), 1.0)
    more = published(spec, tables(5))
    assert recall(more, with_index(more)) >= 0.9
    renewed = bring_up_to_date(more, 1.0)
    assert len(renewed.state.files) == 5
    assert recall(more, renewed) >= 0.9
    lines = more.seen.lines.filter(
        pa.compute.not_equal(more.seen.lines["path"], "part-1-1-0.parquet")
    )
    fewer = PublishedVectors(
        spec, type(more.seen)(more.seen.version, lines), more.schema, "embedding"
    )
    assert len(fewer.files) == 4
    assert recall(fewer, with_index(fewer)) >= 0.9
    assert recall(fewer, bring_up_to_date(fewer, 1.0)) >= 0.9


def test_a_crash_between_the_index_and_its_note_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_at(tmp_path)
    old = bring_up_to_date(published(spec, tables(2)), 1.0).state
    more = published(spec, tables(3))
    with monkeypatch.context() as patched:
        patched.setattr(IndexPlace, "save", lambda self, state: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bring_up_to_date(more, 1.0)
    used = with_index(more)
    assert isinstance(used, IndexedVectors)
    assert used.state == old
    assert recall(more, used) >= 0.9
    assert recall(more, bring_up_to_date(more, 1.0)) >= 0.9


def test_two_at_once_do_not_double_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_at(tmp_path)
    bring_up_to_date(published(spec, tables(2)), 1.0)
    more = published(spec, tables(3))
    renew = indexing.renewed

    def twice(*given: Any) -> Any:
        renew(*given)
        return renew(*given)

    monkeypatch.setattr(indexing, "renewed", twice)
    with pytest.raises(StaleLedger, match="somebody else"):
        bring_up_to_date(more, 1.0)


def test_vectors_of_another_model_are_indexed_anew(tmp_path: Path) -> None:
    spec = spec_at(tmp_path)
    old = published(spec, tables(2))
    bring_up_to_date(old, 1.0)
    short = pa.table({"embedding": pa.array([[1.0, 0.0]] * 3, pa.list_(pa.float32(), 2))})
    seen = published(spec, [short] * 3).seen
    lines = seen.lines.filter(pa.compute.equal(seen.lines["version"], 2))
    new = PublishedVectors(spec, type(seen)(seen.version, lines), short.schema, "embedding")
    found = bring_up_to_date(new, 1.0)
    for count in (9, 10**12):  # Lance would make room for as many as are asked for
        assert len(found.nearest(unit([1, 0]), count).rows) == 3


def test_what_cannot_be_indexed_is_said(tmp_path: Path) -> None:
    lists = pa.table({"embedding": pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float32()))})
    with pytest.raises(InvalidSpec, match="may differ in length"):
        bring_up_to_date(published(spec_at(tmp_path), [lists]), 0.9)
    huge = pa.table({"embedding": pa.array([[1e30, 1.0]], pa.list_(pa.float64(), 2))})
    with pytest.raises(InvalidSpec, match="too long or too short"):
        bring_up_to_date(published(spec_at(tmp_path / "b"), [huge]), 0.9)


def test_an_output_without_a_vector(tmp_path: Path) -> None:
    empty = pa.table({"embedding": pa.array([None, None], pa.list_(pa.float32(), 2))})
    vectors = published(spec_at(tmp_path), [empty])
    found = bring_up_to_date(vectors, 0.9).nearest(unit([1, 0]), 3)
    assert (found.rows, found.num_searched, found.num_without) == ([], 2, 2)


def test_without_lance_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = published(spec_at(tmp_path), tables(1, rows=60))
    bring_up_to_date(vectors, 0.5)
    monkeypatch.setitem(sys.modules, "lance", None)  # neither found nor imported
    way_out = r"pip install 'prefect-ray-data\[lance\]'"
    with pytest.raises(InvalidSpec, match=f"^index: 'use' needs the package lance: {way_out}"):
        with_index(vectors)
    with pytest.raises(InvalidSpec, match=f"^index: 'update' needs the package lance: {way_out}"):
        bring_up_to_date(vectors, 0.5)


def different_lengths() -> pa.Table:
    """The first the nearest to [1, 0] by its direction, and the farthest by its place."""
    vectors = [[100.0, 1.0], *([0.5, 0.1 + number / 100] for number in range(40))]
    return pa.table({"embedding": pa.array(vectors, pa.list_(pa.float32(), 2))})


@pytest.mark.parametrize("goes_on", [False, True], ids=["anew", "without groups"])
def test_vectors_that_come_to_an_output_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    spec = spec_at(tmp_path)
    empty = pa.table({"embedding": pa.array([None, None], pa.list_(pa.float32(), 2))})
    bring_up_to_date(published(spec, [empty]), 1.0)
    more = published(spec, [empty, different_lengths()])
    if goes_on:  # as an older version did
        monkeypatch.setattr(indexing, "can_go_on", lambda *_: True)
    found = bring_up_to_date(more, 1.0)
    assert found.dataset.has_index is not goes_on
    assert found.state.recall == 1.0
    assert found.nearest(unit([1, 0]), 3).rows == more.nearest(unit([1, 0]), 3).rows


@pytest.mark.s3
def test_in_an_object_store(s3: S3, tmp_path: Path) -> None:
    there = {"path": s3.url("indexed"), "storage_options": s3.storage_options}
    vectors = published(spec_at(tmp_path, **there), tables(2, rows=60))
    bring_up_to_date(vectors, 1.0)
    assert recall(vectors, with_index(vectors), 2) >= 0.9
