"""Whoever sees an error finds it in the documentation."""

import re
from itertools import chain
from pathlib import Path

import pytest
from prefect import settings
from prefect.settings.models.server.services import ServerServicesDBVacuumSettings

from tasks import errors
from tasks.errors import BatchInferenceError, Final, HeldBack, Retryable
from tasks.protocol.layout import OutputFolder, RunFolder

ROOT = Path(__file__).parents[1]
STATE = (ROOT / "docs/state.md").read_text()
TEXT = (ROOT / "docs/troubleshooting.md").read_text()
DEPLOYMENTS = (ROOT / "deployments/README.md").read_text()
BRANCHES = {BatchInferenceError, Final, HeldBack, Retryable}
"""They only hold others together."""
KNOWN = [each for each in vars(errors).values() if isinstance(each, type) and each not in BRANCHES]
RAISED = [each for each in KNOWN if issubclass(each, BatchInferenceError)]


@pytest.mark.parametrize("error", RAISED)
def test_every_error_is_explained(error: type[BatchInferenceError]) -> None:
    seen = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]
    assert any(f"`{error.__name__}" in each for each in seen)


@pytest.mark.parametrize("folder", [OutputFolder("out"), RunFolder("out.state/runs/1")])
def test_every_place_is_explained(folder: OutputFolder | RunFolder) -> None:
    places = {name for name, each in vars(type(folder)).items() if isinstance(each, property)}
    for name in places - {"run_id", "state", "success"}:
        assert f"`{getattr(folder, name).rpartition('/')[2]}" in STATE, name


def test_every_setting_of_prefects_that_is_named_is_one() -> None:
    pages = chain(ROOT.glob("*.md"), ROOT.glob("docs/*.md"), ROOT.glob("deployments/**/*.md"))
    named = {name for page in pages for name in re.findall(r"PREFECT_[A-Z_]+", page.read_text())}
    assert len(named) > 8
    assert [each for each in named if not hasattr(settings, each)] == []


def test_a_server_that_is_told_so_forgets_old_runs() -> None:
    told = re.search(r"PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED=([\w,]+)", DEPLOYMENTS)
    assert told
    vacuum = ServerServicesDBVacuumSettings.model_validate({"enabled": told[1]})
    assert {"events", "flow_runs"} <= vacuum.enabled_vacuum_types
    assert f"ended {vacuum.retention_period.days} days ago" in DEPLOYMENTS
