"""The soak in small: `python -m tests.soak` plays as many cases as you like."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.soak.drawing import FAULTS, PLACES, draw
from tests.soak.drawn import Lying, Pipeline, Where
from tests.soak.formats import FORMATS
from tests.soak.oracle import Promise
from tests.soak.playing import play
from tests.soak.promises import Found, compare_rows, compare_set_aside
from tests.soak.published import Output
from tests.soak.stand import Stand, stand

SEEDS = 120


@pytest.fixture
def shared() -> Iterator[Stand]:
    # pytest's own folders are too deep for Ray's sockets.
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    with stand(folder) as started:
        yield started
    shutil.rmtree(folder)


@pytest.mark.parametrize("where", PLACES)
def test_a_seed_says_all_and_seeds_say_everything(where: Where) -> None:
    drawn = [draw(seed, where) for seed in range(SEEDS)]
    assert drawn == [draw(seed, where) for seed in range(SEEDS)]
    rounds = [each for case in drawn for each in case.rounds]
    assert {each.strike.fault for each in rounds} == {*FAULTS[where], "S3"}
    assert {each.action for each in rounds} == {"run", "replace", "limit", "redrive"}
    assert {case.pipeline.source for case in drawn} == {*FORMATS}
    assert {each.is_damaged for case in drawn for each in case.inputs} == {True, False}


def promised() -> Promise:
    """Some rows, one of them bad."""
    case = next(case for case in map(draw, range(SEEDS)) if has_both(case.pipeline))
    promise = Promise(case.pipeline)
    promise.keep("run", Lying().changed(case.inputs))
    return promise


def has_both(pipeline: Pipeline) -> bool:
    """Whether rows are published as Parquet, and some are set aside."""
    return pipeline.sink == "parquet" and pipeline.broken_every > 0


def test_a_redrive_does_rows_of_what_lies_there_unchanged() -> None:
    case = next(case for case in map(draw, range(SEEDS)) if has_both(case.pipeline))
    lying, promise = Lying().changed(case.inputs), promised()
    name, row = next(iter(promise.set_aside))
    promise.is_mended = True
    promise.keep("redrive", lying.changed((), removed=(name,)))
    assert (name, row) in promise.set_aside, "its file is gone"
    before = promise.set_aside
    promise.keep("redrive", lying)
    assert promise.set_aside < before


@pytest.mark.parametrize("fault", ["none", "lost", "doubled", "wrong"])
def test_the_oracle_notices(tmp_path: Path, fault: str) -> None:
    import fsspec

    promise = promised()
    rows = [dict(row) for row in promise.rows.elements()]
    if fault in ("lost", "wrong"):
        rows.pop()
    if fault in ("doubled", "wrong"):
        rows.append({**rows[0], "id": rows[0]["id"] + (fault == "wrong") / 2})
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "part.parquet")
    found = Found()
    compare_rows(found, Output("parquet", str(tmp_path), fsspec.filesystem("file")), promise)
    assert (found.lost, found.doubled) == (
        fault in ("lost", "wrong"),
        fault in ("doubled", "wrong"),
    )
    assert bool(found.problems) == (fault != "none")


def test_every_row_set_aside_has_its_reason() -> None:
    promise, found = promised(), Found()
    said = {"error_type": "ValueError", "error_message": "it breaks"}
    rows = [{"source": f"in/{name}", "row": row, **said} for name, row in promise.set_aside]
    compare_set_aside(found, rows, promise)
    assert rows
    assert not found.problems
    compare_set_aside(found, [{**rows[0], "error_message": ""}, *rows[2:]], promise)
    assert len(found.problems) == 2


@pytest.mark.chaos
def test_killed_three_times_every_row_is_accounted_for(shared: Stand) -> None:
    result = play(shared, draw(6, "inline"))
    assert result.is_good, result.line()
    assert [each.kills for each in result.struck] == [1, 1, 1]
