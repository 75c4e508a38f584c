"""How many batches make a record, where one thread writes them all."""

from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tasks.protocol.batch import ROW, RowBatch
from tasks.ray_job import gathering
from tasks.ray_job.gathering import Gathering
from tests.ray_job.test_own_machine import job_of, spec


def test_the_time_before_the_first_batch_is_none_of_its_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In it a model may be loaded: the first file of a run was of a single batch."""
    now = 0.0
    monkeypatch.setattr(gathering, "time", SimpleNamespace(monotonic=lambda: now))

    def batches() -> Iterator[RowBatch]:
        nonlocal now
        for number, waited in enumerate([60, 1, 1, 60, 1, 1, 1, 31, 1]):
            now += waited
            yield RowBatch(pa.table({ROW: pa.array([number])}))

    groups = Gathering(job_of(spec()), per_write=3).groups(batches())
    numbers = [[int(each.ids[0]) for each in group] for group in groups]
    assert numbers == [[0, 1, 2], [3, 4, 5], [6, 7], [8]], "and half a minute makes a record"
