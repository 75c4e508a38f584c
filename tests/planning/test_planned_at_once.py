"""Two runs of one output that are planned in the same seconds, as two people or schedules do."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import OutputHeld
from tasks.lease import Holder, save_holder
from tasks.ledgers import ledger_of
from tasks.plan import PlannedRun, make_plan
from tasks.planning.new_inputs import published_paths
from tasks.planning.planned_at_once import are_at_odds
from tasks.planning.unfinished import UnfinishedRuns
from tasks.publish import publish_planned
from tasks.run_options import RunOptions
from tasks.scheduled import at_time
from tests.reporting import classify_spec, make_inputs, run_attempt

REPLACE_OUTPUT = RunOptions(replace_output=True)
OTHER_MODEL = {"init": {"bad": [9]}}


@pytest.fixture(autouse=True)
def neither_sees_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it looks for unfinished runs, before it leaves word of itself."""
    monkeypatch.setattr(UnfinishedRuns, "refuse_others", lambda *_: None)


def begun_elsewhere(planned: PlannedRun) -> PlannedRun:
    """A run that another process is at work on."""
    save_holder(
        planned.storage, planned.run.lease, replace(Holder.of(os.getpid()), host="elsewhere")
    )
    return planned


def unfinished(planned: PlannedRun) -> list[str]:
    """Runs that are in the way of others."""
    runs = UnfinishedRuns(planned.spec, planned.ledger.look())
    return [header["run_id"] for header in runs.headers()]


@pytest.mark.parametrize(
    ("mode", "options", "second", "second_options"),
    [
        ("append", RunOptions(), OTHER_MODEL, RunOptions()),
        ("replace", RunOptions(), OTHER_MODEL, RunOptions()),
        ("append", RunOptions(), {}, REPLACE_OUTPUT),
        ("append", REPLACE_OUTPUT, {}, RunOptions()),
    ],
    ids=["another model", "mode replace", "beside a new version", "in a new version's place"],
)
def test_the_second_is_refused_before_it_works_in_vain(
    tmp_path: Path,
    mode: str,
    options: RunOptions,
    second: dict[str, Any],
    second_options: RunOptions,
) -> None:
    """It was refused when all of its rows were predicted, or replaced what was just published."""
    make_inputs(tmp_path / "in")
    sink = {"kind": "parquet", "path": str(tmp_path / "out"), "mode": mode}
    first = begun_elsewhere(make_plan(classify_spec(tmp_path, sink=sink), options))
    other = classify_spec(tmp_path, sink=sink, **second)
    with pytest.raises(OutputHeld, match=rf"held by run {first.run.run_id}, .* on elsewhere; wait"):
        make_plan(other, second_options)
    assert unfinished(first) == [first.run.run_id]
    run_attempt(first)
    assert make_plan(first.spec, options).run == first.run, "it is gone on with after a crash"
    assert publish_planned(first) == 1


def test_rows_of_other_inputs_are_added_by_both(tmp_path: Path) -> None:
    both = []
    for name in ("one", "other"):
        make_inputs(tmp_path / name)
        source = {"kind": "parquet", "path": str(tmp_path / name)}
        both.append(begun_elsewhere(make_plan(classify_spec(tmp_path, source=source))))
    for version, planned in enumerate(both, 1):
        run_attempt(planned)
        assert publish_planned(planned) == version
    assert len(ledger_of(both[0].spec).look().inputs) == 8


def test_a_redrive_may_be_of_another_config_and_replaces_nothing() -> None:
    def header(mode: str = "append", **call: Any) -> dict[str, Any]:
        return {"run_id": "begun", "call": call, "spec": {"sink": {"mode": mode}}}

    redrive = header("replace", redrive=["4f2a"])
    for others, are in [(header(), False), (header(replace_output=True), True)]:
        for pair in [(redrive, others), (others, redrive)]:
            assert are_at_odds(*pair, lambda _: ([], ["model.init"])) is are
    assert are_at_odds(header(), header(), lambda _: ([], ["model.init"]))


def test_of_scheduled_times_that_replace_each_other_the_latest_goes_on(tmp_path: Path) -> None:
    """Its rows are those that stay, whichever was planned first."""
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    (tmp_path / "in").mkdir()
    for day in days:
        make_inputs(tmp_path / f"in/{day:%d}")
    given = classify_spec(
        tmp_path,
        source={"kind": "parquet", "path": f"{tmp_path}/in/{{scheduled:%d}}"},
        sink={"kind": "parquet", "path": str(tmp_path / "out"), "mode": "replace"},
    )

    def plan(time: datetime) -> PlannedRun:
        options = RunOptions(scheduled_time=time, shares_output=True)
        return begun_elsewhere(make_plan(at_time(given, time), options))

    first, second, third = days
    earlier, later = plan(second), plan(third)
    with pytest.raises(OutputHeld):
        plan(first)
    assert sorted(unfinished(later)) == sorted([earlier.run.run_id, later.run.run_id])


def test_of_runs_with_the_same_inputs_the_second_is_refused_in_the_end(tmp_path: Path) -> None:
    """By the number of files, of which a large one is several shards."""
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        file = tmp_path / f"in/{name}.parquet"
        pq.write_table(pa.table({"id": range(50)}), file, row_group_size=10)
    paths: list[Any] = [f"{tmp_path}/in", [f"{tmp_path}/in/a.parquet", f"{tmp_path}/in/b.parquet"]]
    sources = [{"kind": "parquet", "path": path, "split_above_mib": 1e-6} for path in paths]
    first, second = (
        begun_elsewhere(make_plan(classify_spec(tmp_path, source=source))) for source in sources
    )
    for planned in (first, second):
        assert len(planned.plan.shards) == 10
        run_attempt(planned)
    publish_planned(first)
    with pytest.raises(OutputHeld, match=r"has published .*/a\.parquet and 1 other input since"):
        publish_planned(second)
    assert published_paths(first.ledger.look()) == paths[1]
