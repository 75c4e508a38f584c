"""Files of rows set aside that others have changed or removed: who needs them goes on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.late_report import report_late
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tasks.published import rows_set_aside
from tasks.run_options import RunOptions
from tests.damaged.states import CONTENTS, State, published
from tests.reporting import run_attempt

WAYS: list[Callable[[Path], object]] = [
    Path.unlink,
    *(lambda file, how=how: file.write_bytes(how(file.read_bytes())) for how in CONTENTS.values()),
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return published(tmp_path_factory.mktemp("published"))


@pytest.fixture(params=range(len(WAYS)))
def damaged(state: State, request: pytest.FixtureRequest) -> State:
    """One of whose two files of rows set aside the first is not as it was."""
    state.restore()
    WAYS[request.param](min(Path(f"{state.spec.sink.path}.state/quarantine").iterdir()))
    return state


def test_rows_set_aside_again_are_without_their_history(
    damaged: State, caplog: pytest.LogCaptureFixture
) -> None:
    spec = damaged.spec.with_part("errors", max_rejected_fraction=1.0)
    planned = make_plan(spec, RunOptions(redrive=True))
    run_attempt(planned)
    assert publish_planned(planned) == 2
    assert "the earlier reasons of rows set aside again are lost" in caplog.text
    has_history = sorted(each["history"] is not None for each in rows_set_aside(spec))
    assert has_history == [False, True]


def test_a_report_goes_without_them(damaged: State, caplog: pytest.LogCaptureFixture) -> None:
    manifest = Path(f"{damaged.spec.sink.path}.state/manifests/{damaged.run.name}.json")
    manifest.unlink()  # as where the process was killed that had published
    assert "before writing its report: it is written now" in str(
        report_late(make_plan(damaged.spec))
    )
    assert "the report goes without rows set aside" in caplog.text
    told = json.loads(manifest.read_bytes())
    assert (told["rows"]["rejected"], told["stages"]["infer"]["rejected"]) == (2, 2)
