"""Files of a run that goes on, damaged: which of them stop it, and that nothing is lost by it."""

from pathlib import Path

import pytest

from tasks.cleaning import find_orphans
from tasks.errors import InvalidSpec
from tasks.plan import make_plan
from tasks.run import forget_old_word
from tasks.running_jobs import live_jobs, runs_at_work, tell_to_stop
from tests.damaged.states import CONTENTS, State, unfinished
from tests.reporting import run_spec

NOTES = ("job", "followed", "progress", "result")
IDS = [*(each for each in range(150) if each not in (3, 120)), *range(1000, 1100)]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return unfinished(tmp_path_factory.mktemp("unfinished"))


def see_that_it_goes_on(state: State) -> None:
    """The next call publishes the run."""
    planned, report = run_spec(state.spec)
    assert Path(planned.run.path) == state.run
    assert (report.version, report.report is not None, state.ids()) == (2, True, IDS)


@pytest.mark.parametrize("pattern", ["run.json", "plans/*", "records/*", "schemas/*"])
def test_what_a_run_hangs_on_is_named_and_the_run_goes_on_without_it(
    state: State, pattern: str
) -> None:
    for how in CONTENTS:
        file = state.damage(pattern, how)
        with pytest.raises(
            InvalidSpec, match=r"is not as it was written \(.*Restore it .*elete it"
        ):
            make_plan(state.spec)
        with pytest.raises(InvalidSpec, match=str(file)):
            make_plan(state.spec, save=False)
    file.unlink()
    see_that_it_goes_on(state)


@pytest.mark.parametrize("file", ["lease.json", *(f"attempts/1/{each}.json" for each in NOTES)])
def test_what_no_row_hangs_on_is_passed_over(state: State, file: str) -> None:
    for how in CONTENTS:
        state.damage(file, how)
        assert (live_jobs(state.spec), runs_at_work(state.spec)) == ([], {})
        tell_to_stop(state.spec)
        find_orphans(state.spec)
        forget_old_word(make_plan(state.spec))
    see_that_it_goes_on(state)


def test_clean_names_a_damaged_header(state: State) -> None:
    file = state.damage("run.json", "cut short")
    with pytest.raises(InvalidSpec, match=str(file)):
        find_orphans(state.spec)
