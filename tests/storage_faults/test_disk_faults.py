"""Outputs on disks that are full or may not be written to."""

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import StageFailed, Unreachable
from tasks.plan import make_plan
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.storage import FsspecStorage
from tasks.publish import publish_planned
from tasks.published import published_rows
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.protocol.test_ledger_contract import entry
from tests.reporting import run_attempt

ROWS = 5_000


@pytest.fixture
def spec(tmp_path: Path) -> BatchInferenceSpec:
    """Doubles x; its parts are larger than the limit below."""
    (tmp_path / "in").mkdir()
    values = np.random.default_rng(0).random(ROWS)  # that nothing compresses
    pq.write_table(pa.table({"id": pa.array(range(ROWS)), "x": values}), tmp_path / "in/a.parquet")
    stages = {"read": {"rows_per_batch": ROWS}}
    return spec_of(tmp_path / "in", stages=stages)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Stands for a full disk: a write beyond the limit is an OSError, EFBIG instead of ENOSPC."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_the_next_attempt_goes_on(spec: BatchInferenceSpec) -> None:
    planned = make_plan(spec)
    with (
        files_of_at_most(20_000),
        pytest.raises(StageFailed, match=r"stage write .*File too large"),
    ):
        run_attempt(planned)
    assert not [*Path(planned.run.staging).glob("*")], "what was half written is gone"
    again = make_plan(spec)
    run_attempt(again)
    publish_planned(again)
    rows = published_rows(spec)
    assert np.array_equal(rows["doubled"], 2 * np.asarray(rows["x"]))
    assert rows["id"].to_pylist() == list(range(ROWS))


def test_a_disk_that_is_full_from_the_start_is_told_in_plain_words(
    spec: BatchInferenceSpec,
) -> None:
    with (
        files_of_at_most(300),
        pytest.raises(
            Unreachable,
            match=r"free some space, .*: Unable to copy data to file: File too large \(os .*\)$",
        ),
    ):
        make_plan(spec)


def test_a_ledger_for_which_there_is_no_room_is_not_taken_for_anothers(tmp_path: Path) -> None:
    """Nobody else has published: to look again and again would tell of others at the end."""
    ledger = DeltaLedger(str(tmp_path / "ledger"))
    ledger.make()
    seen = ledger.look()
    with files_of_at_most(300), pytest.raises(OSError, match="File too large") as told:
        ledger.commit(entry("k"), seen)
    assert told.value.errno == errno.EFBIG


def test_an_output_that_cannot_be_written_to_is_told_before_anything_starts(
    spec: BatchInferenceSpec,
) -> None:
    sink = spec.sink.model_copy(update={"path": "/sys/out"})  # nobody may write there, root neither
    with pytest.raises(
        Unreachable, match=r"sink\.path: '/sys/out' cannot be written to: free some space"
    ):
        make_plan(spec.model_copy(update={"sink": sink}))


CALLS = ("read", "list", "stat", "folders")


def test_a_storage_that_is_away_in_the_middle_of_a_plan_is_said_to_be(
    spec: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever question to it, as of the run that is unfinished there."""
    make_plan(spec)
    with answers_at_most(100, monkeypatch) as left:
        make_plan(spec, save=False)
        asked = 100 - left[0]
    assert asked > 15
    for number in range(asked):
        with answers_at_most(number, monkeypatch), pytest.raises(Unreachable, match=r"^sink\.path"):
            make_plan(spec, save=False)


@contextmanager
def answers_at_most(times: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A storage that answers so often about an output; how often it still will."""
    left = [times]

    def asked(call: Any, storage: FsspecStorage, path: str) -> Any:
        if "/out" in path:
            left[0] -= 1
            if left[0] < 0:
                raise ConnectionError("no route to it")
        return call(storage, path)

    with monkeypatch.context() as away:
        for name in CALLS:
            call = getattr(FsspecStorage, name)
            away.setattr(FsspecStorage, name, partialmethod(partial(asked, call)))
        yield left
