"""Files of a published run, damaged: later runs go on, and what needs them says so."""

import pytest

from tasks.errors import InvalidSpec
from tasks.plan import make_plan
from tasks.run_options import RunOptions
from tasks.verifying.sample import draw_sample, trial_to_verify
from tests.damaged.states import CONTENTS, State, published
from tests.reporting import run_spec


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return published(tmp_path_factory.mktemp("published"))


@pytest.mark.parametrize("pattern", ["run.json", "plans/*"])
def test_who_needs_what_a_run_has_done_is_told_what_is_damaged(state: State, pattern: str) -> None:
    trial = trial_to_verify(state.spec, 16, "verify", on_cluster=False)
    for how in CONTENTS:
        told = rf"{state.damage(pattern, how)}.* Restore it .* with --replace-output"
        assert make_plan(state.spec).nothing_to_do
        with pytest.raises(InvalidSpec, match=told):
            make_plan(state.spec, RunOptions(redrive=True))
        with pytest.raises(InvalidSpec, match=told):
            draw_sample(state.spec, trial, 16, ())
        other = state.spec.with_part("model", init={"bad": []})
        with pytest.raises(InvalidSpec, match="another config published version 1"):
            make_plan(other)
    _, report = run_spec(state.spec, RunOptions(replace_output=True))
    assert (report.version, len(state.ids())) == (2, 148)
