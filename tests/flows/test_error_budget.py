"""A run within its budget is published, however its attempts came upon the rows set aside."""

from pathlib import Path

import pytest

from flows.batch_inference import batch_inference
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


@pytest.mark.parametrize(("share", "always"), [(0.05, 0), (0.001, 160)])
def test_who_goes_on_is_not_held_back_by_the_rows_set_aside_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, always: int
) -> None:
    """Those come first: of what the second attempt sees they are most, of the run's rows few."""
    monkeypatch.setattr("tasks.ray_job.progress.WRITE_EVERY_SECONDS", 0.01)
    folder = tmp_path / "lines"
    folder.mkdir()
    for file in range(10):
        lines = [f'{{"id": {n}, "x": {n}.0}}' for n in range(file * 400, file * 400 + 400)]
        lines[::25] = ["no json"] * 16
        (folder / f"{file}.jsonl").write_text("\n".join(lines))
    init = {"at": 3990.0, "marker": str(tmp_path / "died")}
    spec = spec_of(
        folder,
        source={"kind": "jsonl", "path": str(folder)},
        model={"kind": "python", "class": "predictors:DiesOnce", "init": init},
        errors={"max_rejected_fraction": share, "rejected_rows_always_allowed": always},
        retries={"max_attempts": 2},
    )
    report = batch_inference(spec)
    assert (report["attempts"], report["rows"]["rejected"]) == (2, 160)
    assert len(published(spec)) == 3840
