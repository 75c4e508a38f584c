"""Whoever sees an error finds it in the documentation."""

from pathlib import Path

import pytest

from tasks import errors
from tasks.errors import BatchInferenceError, Final, HeldBack, Retryable
from tasks.protocol.layout import OutputFolder, RunFolder

STATE = (Path(__file__).parents[1] / "docs/state.md").read_text()
TEXT = (Path(__file__).parents[1] / "docs/troubleshooting.md").read_text()
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
