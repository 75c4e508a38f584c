"""What nights leave, a year of them too: a store is asked for it side by side, or not at all.

One by one, at a store's pace, each file takes as long as all of them together.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.cleaning import find_orphans
from tasks.ledgers import ledger_of
from tasks.materializing_run import plan_materializing_run
from tasks.outputs import output_of
from tasks.plan import make_plan
from tasks.planning.equal_configs import equals_of, leave_word
from tasks.planning.unfinished import UnfinishedRuns
from tasks.previewing import clear_away
from tasks.publish import publish_planned
from tasks.published import published_rows, rows_set_aside
from tasks.run_options import RunOptions
from tasks.running_jobs import runs_at_work
from tasks.spec import BatchInferenceSpec
from tasks.verifying.sample import draw_sample, trial_to_verify
from tests.in_pairs import in_pairs
from tests.noted_calls import noted_calls
from tests.reporting import classify_spec, run_attempt, run_spec

NIGHTS = 4
EACH = 10
BAD = [EACH * night for night in range(NIGHTS)]


def add_night(folder: Path, night: int) -> None:
    """Another input."""
    (folder / "in").mkdir(exist_ok=True)
    ids = pa.table({"id": [*range(EACH * night, EACH * night + EACH)]})
    pq.write_table(ids, folder / "in" / f"{night}.parquet")


@pytest.fixture
def with_rows_aside(tmp_path: Path) -> BatchInferenceSpec:
    """Of each night a row is set aside."""
    spec: BatchInferenceSpec = classify_spec(tmp_path, {"bad": BAD})
    for night in range(NIGHTS):
        add_night(tmp_path, night)
        run_spec(spec)
    return spec


def test_rows_set_aside_are_read_at_once(
    with_rows_aside: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = in_pairs(monkeypatch, "read", lambda path: "/quarantine/" in path)
    assert [row["row"] for row in rows_set_aside(with_rows_aside)] == [0] * NIGHTS
    assert len(asked) == NIGHTS


def test_a_redrive_looks_at_the_plans_of_all_nights_at_once(
    with_rows_aside: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = in_pairs(monkeypatch, "read", lambda path: "/plans/" in path)
    planned = make_plan(with_rows_aside, RunOptions(redrive=True), save=False)
    assert (len(asked), len(planned.plan.shards)) == (NIGHTS, NIGHTS)


def test_a_redrive_reads_at_once_what_was_said_of_its_rows(
    with_rows_aside: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = with_rows_aside.with_part("errors", max_rejected_fraction=1.0)
    planned = make_plan(spec, RunOptions(redrive=True))
    run_attempt(planned)
    with monkeypatch.context() as patch:
        asked = in_pairs(patch, "read", lambda path: "/quarantine/" in path)
        publish_planned(planned)
    assert len(asked) == NIGHTS
    assert all(row["history"] for row in rows_set_aside(spec))


def test_files_of_a_night_are_moved_in_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a few too, each of which takes three of a store's answers."""
    add_night(tmp_path, 0)
    planned = make_plan(classify_spec(tmp_path, {"bad": BAD}))
    run_attempt(planned)
    moved = in_pairs(monkeypatch, "move", lambda path: "/staging/" in path)
    publish_planned(planned)
    assert len(moved) == 2


def test_runs_that_came_to_nothing_are_looked_at_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that was given up leaves one, and a plan asks for them again and again."""
    add_night(tmp_path, 0)
    for init in ({"bad": [1]}, {"bad": [2]}):
        spec = classify_spec(tmp_path, init)
        make_plan(spec, RunOptions(restart=True))
    asked = in_pairs(monkeypatch, "read", lambda path: path.endswith("/run.json"))
    headers = UnfinishedRuns(spec, ledger_of(spec).look()).headers()
    assert sorted(each["abandoned"] for each in headers) == [False, True]
    assert len(asked) == 2


def test_words_on_equal_configs_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, output = output_of(classify_spec(tmp_path))
    for other in "bc":
        leave_word(storage, output, [["a", other]], {})
    asked = in_pairs(monkeypatch, "read", lambda path: "/equal_configs/" in path)
    assert equals_of(storage, output, ["a"]) == ("a", "b", "c")
    assert len(asked) == 2


def run_cut(folder: Path, night: int) -> BatchInferenceSpec:
    """A run of another input, in two jobs."""
    add_night(folder, night)
    spec: BatchInferenceSpec = classify_spec(folder, stages={"preprocess": {"materialize": True}})
    planned = make_plan(spec)
    first = plan_materializing_run(planned)
    assert first
    run_attempt(first)
    run_attempt(planned)
    publish_planned(planned)
    return spec


def test_what_other_nights_have_kept_is_looked_at_once_and_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether one has kept the night's rows no name tells; its own job's are known."""
    for night in range(2):
        run_cut(tmp_path, night)
    kept = [str(each) for each in (tmp_path / "out.state/prepared").glob("*.state/runs/*")]
    asked = in_pairs(monkeypatch, "stat", lambda path: path.rpartition("/")[0] in kept)
    read = noted_calls(monkeypatch, "read")
    spec = run_cut(tmp_path, 2)
    plans = [path for path in read if any(path.startswith(f"{run}/plans/") for run in kept)]
    assert (len(kept), len(asked), len(plans)) == (2, 2, 2)
    assert sorted(published_rows(spec)["id"].to_pylist()) == [*range(3 * EACH)]


def test_what_first_jobs_have_kept_may_be_deleted(tmp_path: Path) -> None:
    run_cut(tmp_path, 0)
    shutil.rmtree(tmp_path / "out.state/prepared")
    spec = run_cut(tmp_path, 1)
    assert sorted(published_rows(spec)["id"].to_pylist()) == [*range(2 * EACH)]
    shutil.rmtree(tmp_path / "out.state/prepared")
    assert (find_orphans(spec), runs_at_work(spec)) == ([], {})


def test_folders_of_runs_whose_versions_were_replaced_may_be_deleted(
    with_rows_aside: BatchInferenceSpec, tmp_path: Path
) -> None:
    spec = with_rows_aside.with_part("errors", max_rejected_fraction=1.0)
    old = list((tmp_path / "out.state/runs").iterdir())
    run_spec(spec, RunOptions(replace_output=True))
    for folder in old:
        shutil.rmtree(folder)
    add_night(tmp_path, NIGHTS)
    assert run_spec(spec)[1].rows["written"] == EACH
    assert run_spec(spec, RunOptions(redrive=True))[1].rows["rejected"] == NIGHTS
    trial = trial_to_verify(spec, 64, "trial", on_cluster=False)
    assert len(draw_sample(spec, trial, 64, (), is_timed=False).planned.plan.shards) == NIGHTS + 1
    clear_away(trial)
    assert (find_orphans(spec), make_plan(spec).nothing_to_do) == ([], True)
