"""Which of a job's four tasks turns red, and that one does; without a job and without Prefect."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import stages
from tasks.attempt import Attempt
from tasks.errors import Unreachable
from tasks.ray_job.counts import STAGES
from tasks.stages import follow_stage
from tests.flows.conftest import spec_of


@pytest.fixture(autouse=True)
def not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server has to be there."""
    for name in ("create_progress_artifact", "update_progress_artifact"):
        monkeypatch.setattr(stages, name, lambda *_, **__: None)


def job_of(folder: Path) -> Any:
    """A job whose storage takes everything."""
    storage = SimpleNamespace(delete=lambda path: None)
    names = {"run_id": "run", "attempt": 1, "stopped_file": "stopped"}
    return SimpleNamespace(spec=spec_of(folder), stages=STAGES, storage=storage, **names)


def test_of_a_job_that_does_not_start_one_stage_says_why(tmp_path: Path) -> None:
    def attach(_: Any) -> Any:
        raise Unreachable("cluster.address: nobody answers")

    cluster: Any = SimpleNamespace(attach=attach)
    following = Attempt(job_of(tmp_path), cluster, tell=lambda line: None)
    following.unreachable_seconds = 0.0
    with pytest.raises(Unreachable, match="nobody answers"):
        follow_stage.fn("read", following)
    others = [follow_stage.fn(stage, following) for stage in STAGES[1:]]
    assert {(each.name, each.message) for each in others} == {
        ("Cancelled", "the job did not start")
    }
