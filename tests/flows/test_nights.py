"""Nights that share an output: the next one finishes what another has left."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import attempts
from flows import batch_inference as flow_runs
from flows.batch_inference import batch_inference
from tasks.errors import GateFailed, UnfinishedRun, Unreachable
from tasks.ledgers import ledger_of
from tasks.spec import BatchInferenceSpec
from tests.flows.daily import daily_spec, ids_in, put

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

FIRST, SECOND = (datetime(2026, 1, day, 2, tzinfo=UTC) for day in (1, 2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for day in ("2026-01-01", "2026-01-02"):
        put(tmp_path, day)
    return tmp_path


@pytest.fixture
def unattended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a deployment's run."""
    monkeypatch.setattr(flow_runs, "deployment", SimpleNamespace(id="nightly"))


@pytest.fixture
def begun(folder: Path, monkeypatch: pytest.MonkeyPatch) -> BatchInferenceSpec:
    """A spec whose first night has failed to publish what it had predicted."""
    spec = daily_spec(folder, out="out")

    def fail(planned: Any) -> int:
        raise Unreachable("the storage is away all night")

    with monkeypatch.context() as outage:
        outage.setattr(attempts, "publish_run", fail)
        with pytest.raises(Unreachable, match="all night"):
            batch_inference(spec, scheduled_time=FIRST)
    return spec


@pytest.mark.usefixtures("unattended")
def test_the_next_night_finishes_what_an_outage_has_left(
    begun: BatchInferenceSpec, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    report = batch_inference(begun, scheduled_time=SECOND)
    assert (report["version"], report["rows"]["written"]) == (2, 10), "the report is of its own"
    assert ids_in(begun, folder / "out") == [*range(100, 110), *range(200, 210)]
    assert "the unfinished run of 2026-01-01T02:00:00+00:00 is finished first" in caplog.text
    assert ledger_of(begun).look().entries[1]["rows"]["written"] == 10
    assert "attempt 2" not in caplog.text, "what the first night had predicted was kept"


@pytest.mark.usefixtures("unattended")
def test_what_waits_for_a_person_still_does(folder: Path) -> None:
    gates = [{"kind": "rows", "minimum": 11}]
    spec = daily_spec(folder, out="out", gates=gates)
    with pytest.raises(GateFailed):
        batch_inference(spec, scheduled_time=FIRST)
    with pytest.raises(GateFailed, match="1 of 1 gate failed"):
        batch_inference(spec, scheduled_time=SECOND)
    assert ledger_of(spec).look().version == 0
    assert batch_inference(spec, scheduled_time=FIRST, accept=True)["version"] == 1


def test_a_person_is_told_instead(begun: BatchInferenceSpec) -> None:
    with pytest.raises(UnfinishedRun, match="--scheduled-time 2026-01-01T02:00:00"):
        batch_inference(begun, scheduled_time=SECOND)
