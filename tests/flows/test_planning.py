"""A plan is tried again where nobody is there to do so, and only where that can help."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect import task
from prefect.settings import PREFECT_TASKS_DEFAULT_RETRIES, temporary_settings

from flows import backfill as backfills
from flows import planning
from flows.backfill import backfill
from flows.batch_inference import batch_inference
from tasks import lineage, plan
from tasks.errors import GateFailed, InvalidSpec, OutputHeld, StaleLedger, Unreachable
from tasks.plan import PlannedRun
from tasks.planning.preflight import check_spec
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When it was tried to plan a run of a deployment, which waits for moments only."""
    monkeypatch.setattr(planning, "is_deployment_run", lambda: True)
    monkeypatch.setattr(planning, "WAITS_SECONDS", (0.01, 0.01))
    return []


def failing(
    monkeypatch: pytest.MonkeyPatch, tries: list[float], error: Exception, times: int
) -> None:
    """Have planning fail so many times."""
    asked = itertools.count(1)

    def check(spec: BatchInferenceSpec) -> dict[str, str]:
        tries.append(time.monotonic())
        if next(asked) <= times:
            raise error
        return check_spec(spec)

    monkeypatch.setattr(plan, "check_spec", check)


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("error", [Unreachable("the head restarts"), ConnectionError("no route")])
def test_a_deployments_run_waits_for_what_is_away(
    numbers: Path, error: Exception, tries: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, tries, error, times=2)
    spec = spec_of(numbers)
    assert batch_inference(spec)["published"]
    assert len(published(spec)) == 1000
    assert len(tries) == 3


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("name", ["check", "look"])
def test_so_does_a_backfill_which_looks_before_it_plans(
    numbers: Path, name: str, tries: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = getattr(backfills, name)

    def ask(*given: Any) -> Any:
        tries.append(time.monotonic())
        if len(tries) <= 2:
            raise ConnectionError("no route")
        return asks.fn(*given)

    monkeypatch.setattr(backfills, name, task(ask))
    assert [each["what"] for each in backfill(spec_of(numbers))["periods"]] == ["published"]
    assert len(tries) == 3


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(
    ("error", "times"), [(Unreachable("the head is gone"), 3), (InvalidSpec("wrong"), 1)]
)
def test_patience_has_an_end_and_is_kept_for_what_may_pass(
    numbers: Path,
    error: Exception,
    times: int,
    tries: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing(monkeypatch, tries, error, times=10)
    with pytest.raises(type(error), match=str(error)):
        batch_inference(spec_of(numbers))
    assert len(tries) == times


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_on_the_command_line_it_fails_at_once(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    failing(monkeypatch, tries, Unreachable("the head restarts"), times=1)
    with pytest.raises(Unreachable):
        batch_inference(spec_of(numbers))
    assert len(tries) == 1


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (StaleLedger("others kept committing"), True),
        (OutputHeld("by another"), False),
        (OSError("Generic S3 error"), True),
        (FileNotFoundError("nothing there"), False),
        (PermissionError("not yours"), False),
        (ValueError("a mistake of ours"), False),
    ],
)
def test_what_may_pass_by_itself(error: Exception, passes: bool) -> None:
    state: Any = SimpleNamespace(data=error)
    assert planning.may_pass(None, None, state) is passes
    assert sum(planning.WAITS_SECONDS) == 600


def test_what_a_team_has_all_flows_and_tasks_do_again_is_not_for_ours() -> None:
    """They know by themselves when that helps: one that follows a job ends with it."""
    script = """
from flows import backfill, batch_inference, planning, preview, redrive, search
from tasks import stages
tasks = [stages.follow_stage, stages.skip_stage, planning.plan]
tasks += [backfill.check, backfill.look, search.embed_query]
assert [each.retries for each in tasks] == [0] * 6, [each.retries for each in tasks]
flows = [backfill.backfill, batch_inference.batch_inference, preview.preview]
flows += [redrive.redrive, search.search]
assert [each.retries for each in flows] == [0] * 5, [each.retries for each in flows]
assert flows[1].with_options(retries=1).retries == 1, "who asks for it has it"
"""
    twice = dict.fromkeys(("PREFECT_TASKS_DEFAULT_RETRIES", "PREFECT_FLOWS_DEFAULT_RETRIES"), "2")
    environment = os.environ | twice
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_nor_is_a_run_judged_again_that_was_held_back(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[PlannedRun] = []

    def publish(planned: PlannedRun) -> int:
        tries.append(planned)
        raise GateFailed("too few rows")

    monkeypatch.setattr(lineage, "publish_planned", publish)
    with temporary_settings({PREFECT_TASKS_DEFAULT_RETRIES: 2}), pytest.raises(GateFailed):
        batch_inference(spec_of(numbers))
    assert len(tries) == 1
