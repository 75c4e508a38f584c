"""A replica of a slow model dies in the middle of a batch, of which a part is recorded."""

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.batch_inference import batch_inference
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.ray, pytest.mark.prefect, pytest.mark.chaos]

ROWS = 120
CALL, SECONDS, EMIT_SECONDS = 4, 0.1, 1.5
"""Rows of a call, its time, and when a part is handed on: after 60 rows, or somewhat fewer."""
DIES_AT = 100


@pytest.mark.usefixtures("prefect_server")
def test_what_is_recorded_of_a_batch_is_not_done_again(numbers: Path, ray_address: str) -> None:
    whole = numbers.parent / "whole"
    whole.mkdir()
    pq.write_table(pq.read_table(numbers).slice(0, ROWS), whole / "0.parquet")
    model = {"seconds": SECONDS, "dies_at": DIES_AT, "folder": str(whole.parent)}
    model |= {"emit_seconds": EMIT_SECONDS}
    spec = spec_of(
        whole,
        stages={"read": {"rows_per_batch": ROWS}, "write": {"max_workers": 1}},
        steps=[{"kind": "select", "columns": ["id", "x"]}],
        model={"kind": "python", "class": "predictors:SlowAndMortal", "init": model},
        cluster={"kind": "local", "address": ray_address},
        resources={"max_replicas": 1, "batch_size": CALL},
    )
    report = batch_inference(spec)
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(ROWS)]
    assert report["attempts"] == 1
    given = Counter(map(int, (whole.parent / "given").read_text().split()))
    again = sorted(row for row, times in given.items() if times > 1)
    assert again, "it died before its batch was done"
    assert again[0] >= CALL, "a part of it was recorded"
    assert given[DIES_AT] == 2
    assert notes_on(ray_address, report["run_id"]) == [], "they are deleted with their job"


def notes_on(address: str, run_id: str) -> list[bytes]:
    """What workers have noted with Ray's head, and nobody has deleted.

    Of one run: those of others on this Ray may have been killed, with nobody to delete them.
    """
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    from tasks.ray_job.head_notes import NAMESPACE

    found: list[bytes] = GcsClient(address=address).internal_kv_keys(run_id.encode(), NAMESPACE)
    return found
