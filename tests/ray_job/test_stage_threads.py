"""Stages in threads: side by side, one batch ahead, stopped together."""

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tasks.errors import RunStopped, StageFailed
from tasks.protocol.batch import RowBatch
from tasks.ray_job.stage_threads import StageThreads

LONG = 60.0
BATCH = RowBatch(pa.table({"__row": [1]}))


def drawn(log: list[int], count: int = 1_000) -> Iterator[RowBatch]:
    """Batches, with a note of each that was asked for."""
    for number in range(count):
        log.append(number)
        yield BATCH


def raising(error: Exception, batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
    """A stage that fails at its second batch."""
    yield next(batches)
    next(batches)
    raise error


def test_all_that_goes_in_comes_out_and_the_line_ends() -> None:
    line = StageThreads()
    read: list[int] = []
    last = line.add("infer", line.add("read", drawn(read, 50)))
    assert len(list(last)) == 50
    assert line.is_over(LONG)
    assert read == list(range(50))


def test_a_stage_is_no_more_than_a_batch_ahead_of_the_next() -> None:
    line = StageThreads()
    read: list[int] = []
    held = line.add("read", drawn(read))
    for taken in range(1, 20):
        next(held)
        assert not line.is_over(0.005)
        # One that was taken, one that lies ready, one in the stage's hand.
        assert len(read) <= taken + 2
    line.halt(RunStopped("enough"))
    line.join(LONG)
    assert len(read) <= 21


def test_the_first_error_names_its_stage_and_what_came_through_goes_on() -> None:
    line = StageThreads()
    read: list[int] = []
    broken = line.add("preprocess", raising(ValueError("no"), line.add("read", drawn(read))))
    passed = list(line.add("infer", broken))
    with pytest.raises(StageFailed, match=r"stage preprocess failed: ValueError: no") as raised:
        line.is_over(LONG)
    assert isinstance(raised.value.__cause__, ValueError)
    assert len(passed) == 1
    line.join(LONG)
    assert not any(thread.is_alive() for thread in line.threads)
    assert len(read) < 10


def test_a_halted_line_calls_no_function_any_more() -> None:
    line = StageThreads()
    called: list[pa.Table] = []

    def function(rows: pa.Table) -> pa.Table:
        called.append(rows)
        return rows

    line.add("read", drawn([]))
    rows, stoppable = pa.table({"__row": [1]}), line.stoppable("read", function)
    assert stoppable(rows) is rows
    line.halt(RunStopped("enough"))
    line.halt(StageFailed("later"))
    with pytest.raises(RunStopped):
        stoppable(rows)
    assert len(called) == 1
    with pytest.raises(RunStopped, match="enough"):
        line.is_over(LONG)


def test_a_halted_line_waits_for_no_call_that_hangs() -> None:
    line, goes_on = StageThreads(), threading.Event()

    def hangs() -> Iterator[RowBatch]:
        goes_on.wait(LONG)
        yield BATCH

    line.add("read", hangs())
    assert not line.is_over(0.005)
    line.halt(RunStopped("enough"))
    begun = time.monotonic()
    with pytest.raises(RunStopped, match="enough"):
        line.is_over(LONG)
    assert time.monotonic() - begun < LONG / 2
    assert line.working == {0}
    goes_on.set()
    line.join(LONG)
    assert not line.working


def test_where_a_stage_fails_nobody_waits_for_one_before_it_that_hangs() -> None:
    """Its rows lead nowhere; and what came through the failed stage is recorded first."""
    line, goes_on, may_write = StageThreads(), threading.Event(), threading.Event()
    written = list[RowBatch]()

    def hangs() -> Iterator[RowBatch]:
        yield from drawn([], 2)
        goes_on.wait()
        yield BATCH

    def writes(batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
        for batch in batches:
            may_write.wait(LONG)
            written.append(batch)
        yield from ()

    line.add(
        "write", writes(line.add("infer", raising(ValueError("no"), line.add("read", hangs()))))
    )
    assert not line.is_over(0.005)
    assert not written
    may_write.set()
    with pytest.raises(StageFailed, match="stage infer failed"):
        line.is_over(LONG)
    assert len(written) == 1
    goes_on.set()
    line.join(LONG)
    assert not any(thread.is_alive() for thread in line.threads)
