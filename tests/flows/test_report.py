"""The report as the flow leaves it: JSON, page, artifact."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import BatchInferenceError, ErrorBudgetExceeded
from tasks.job_look import Look
from tasks.ray_job.counts import STAGES
from tests.reporting import classify_spec, make_inputs


def latest_report() -> Any:
    """The artifact as an operator finds it."""
    from prefect.artifacts import Artifact

    return Artifact.get("pets-nightly-report")


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_flow_leaves_page_and_artifact(tmp_path: Path) -> None:
    from flows.batch_inference import batch_inference

    make_inputs(tmp_path / "in")
    report = batch_inference(classify_spec(tmp_path, {"bad": [3]}))
    artifact = latest_report()
    assert artifact.type == "markdown"
    assert artifact.flow_run_id
    assert artifact.data == Path(report["report"]).read_text()
    assert "199 rows published" in artifact.data
    assert report["rows"]["rejected"] == 1
    assert report["attempts"] == 1


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_failed_flow_leaves_a_page_and_its_own_error(tmp_path: Path) -> None:
    from flows.batch_inference import batch_inference

    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path, {"bad": [3]}, errors={"max_rejected_fraction": 0})
    with pytest.raises(ErrorBudgetExceeded):
        batch_inference(spec)
    (page,) = tmp_path.glob("out.state/runs/*/report.md")
    artifact = latest_report()
    assert artifact.data == page.read_text()
    assert "failed, nothing published" in artifact.data
    assert "<td>ErrorBudgetExceeded</td>" in artifact.data


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("maximum", [1, 0], ids=["published", "failed"])
def test_a_report_is_in_its_folder_before_anybody_waits_for_prefects_server(
    maximum: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a deployment's run that may be for ten minutes."""
    from flows.batch_inference import batch_inference

    found: list[Path] = []

    def look() -> None:
        found.extend(tmp_path.glob("out.state/runs/*/report.md"))

    for module in ("batch_inference", "at_work"):
        monkeypatch.setattr(f"flows.{module}.await_server", look)
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path, {"bad": [3]}, errors={"max_rejected_fraction": maximum})
    with nullcontext() if maximum else pytest.raises(ErrorBudgetExceeded):
        batch_inference(spec)
    assert len(found) == 1


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_a_report_that_fails_hides_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.batch_inference import batch_inference

    make_inputs(tmp_path / "in")

    def broken(*arguments: object) -> str:
        raise ValueError("cannot draw")

    monkeypatch.setattr("tasks.report.failure_page", broken)
    init = {"crash_at": 0, "marker": str(tmp_path / "crashed")}
    with pytest.raises(BatchInferenceError, match="the model's server is gone"):
        batch_inference(classify_spec(tmp_path, init))


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_a_stages_picture_that_somebody_deletes_is_not_drawn_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Alone or with its flow run: a run of hours would ask for it every ten seconds."""
    from prefect import flow
    from prefect.client.orchestration import get_client

    from tasks.stage_artifacts import StageArtifact

    counts = {"state": "running", "rows": 7, "rejected": 0, "total": 9, "started": 1, "updated": 2}
    said = {"state": "running", "works_at": "infer", "waits_for": None, "at": 2}
    look = Look({**said, "stages": dict.fromkeys(STAGES, counts)})
    attempt: Any = SimpleNamespace(job=SimpleNamespace(spec=SimpleNamespace(name="deleted")))

    @flow
    def show_and_delete() -> None:
        picture = StageArtifact("infer", attempt)
        picture.show(look, now=True)
        with get_client(sync_client=True) as client:
            client.delete_artifact(picture.id)
        for _ in range(3):
            picture.show(look, now=True)

    show_and_delete()
    assert caplog.text.count("the stage infer cannot be shown in Prefect") == 1
