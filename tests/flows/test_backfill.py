"""Backfill: outputs become what the spec would make of them, and what is done stays done."""

import itertools
import os
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from flows import backfill as backfills
from flows.backfill import backfill
from flows.batch_inference import batch_inference, plan_after_unfinished
from tasks import lineage, output_status
from tasks.errors import (
    InputNotFound,
    InvalidSpec,
    OutputHeld,
    StageFailed,
    UnfinishedRun,
    Unreachable,
)
from tasks.lease import Holder, save_holder
from tasks.ledgers import ledger_of
from tasks.periods import Portion
from tasks.plan import PlannedRun, make_plan
from tasks.publish import publish_planned
from tasks.reporting.backfilled import Outcome
from tasks.run_options import RunOptions
from tasks.scheduled import at_time, timed_inputs
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of
from tests.flows.daily import DAY, OTHER, daily_spec, ids_in, put

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
RANGE = (datetime(2026, 1, 1), datetime(2026, 1, 3))


def told(report: dict[str, Any]) -> list[str]:
    return [each["told"] for each in report["periods"]]


def table_of(report: dict[str, Any]) -> str:
    """The table that a backfill has left in Prefect."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    key = ArtifactFilterKey(any_=[f"{report['name']}-backfill"])
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=ArtifactFilter(key=key))
    (mine,) = [each for each in found if str(each.flow_run_id) == report["flow_run_id"]]
    return str(mine.data)


@pytest.fixture
def daily(tmp_path: Path) -> Path:
    for day in DAYS:
        put(tmp_path, day)
    return tmp_path


def test_a_table_that_was_emptied_takes_its_rows_along(tmp_path: Path) -> None:
    """As a run does; where that is no error."""
    rows, place = pa.table({"id": [1], "x": [1.0]}), str(tmp_path / "table")
    write_deltalake(place, rows)
    source = {"kind": "delta", "path": place, "on_empty": "succeed"}
    spec = spec_of(tmp_path, source=source, sink={"kind": "parquet", "path": str(tmp_path / "out")})
    batch_inference(spec)
    DeltaTable(place).delete()
    assert told(backfill(spec)) == ["published, 0 rows written"]
    assert not published(spec)
    assert told(backfill(spec)) == ["no data"]


def test_outputs_whose_rows_come_out_the_same_are_kept_where_somebody_asks(daily: Path) -> None:
    slow = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 0.001}}
    spec, other = daily_spec(daily), daily_spec(daily, model=slow)
    assert told(backfill(spec, *RANGE)) == ["published, 10 rows written"] * 3
    pq.write_table(pa.table({"id": [1], "x": [1.0]}), daily / "in" / DAYS[1] / "more.parquet")
    first, second, third = told(backfill(other, *RANGE, verify=True))
    same = "what was there comes out the same and stays"
    assert first == third == f"up to date, {same}, 1 input skipped"
    assert second == f"published, {same}, 1 row written, 1 input skipped"
    assert told(backfill(spec, *RANGE)) == [
        *("up to date, 1 input skipped", "up to date, 2 inputs skipped"),
        "up to date, 1 input skipped",
    ], "either counts as the other"
    fewer = daily_spec(daily, steps=[{"kind": "filter", "expression": "x > 205"}])
    assert told(backfill(fewer, *RANGE, verify=True)) == [
        "replaced, 0 rows written",
        "replaced, 4 rows written",
        f"up to date, {same}, 1 input skipped",
    ]


def test_outputs_whose_rows_have_other_columns_now_are_predicted_again(daily: Path) -> None:
    batch_inference(daily_spec(daily), scheduled_time=RANGE[0])
    told_by = {"kind": "template", "template": "{x}", "column": "told"}
    other = daily_spec(daily, steps=[told_by])
    assert told(backfill(other, *RANGE[:1] * 2, verify=True)) == ["replaced, 10 rows written"]


def test_without_a_range_new_inputs_then_nothing_then_another_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, DAYS[0])
    source = {"kind": "parquet", "path": str(tmp_path / "in")}
    spec = spec_of(tmp_path, source=source, sink={"kind": "parquet", "path": str(tmp_path / "out")})
    batch_inference(spec)
    put(tmp_path, DAYS[1])
    assert told(backfill(spec)) == ["published, 10 rows written, 1 input skipped"]
    assert "inputs: 1 to do, 1 published already" in caplog.text
    assert told(backfill(spec)) == ["up to date, 2 inputs skipped"]
    other = spec.model_copy(update={"model": spec_of(tmp_path, model=OTHER).model})
    with pytest.raises(InvalidSpec, match="batch-inference backfill SPEC"):
        batch_inference(other)
    assert told(backfill(other)) == ["replaced, 20 rows written"]
    assert told(backfill(other)) == ["up to date, 2 inputs skipped"]
    assert [row["id"] for row in published(spec)] == [*range(100, 110), *range(200, 210)]
    # An input that is gone goes with the new version, and that is told.
    (tmp_path / "in" / DAYS[0] / "a.parquet").unlink()
    assert told(backfill(spec)) == ["replaced, 10 rows written, 1 input gone"]


def test_without_a_range_what_is_left_out_today_is_left_out(tmp_path: Path) -> None:
    while (now := datetime.now(UTC)).hour == 23 and now.minute == 59:
        time.sleep(1)  # else it may be tomorrow when it is run
    today = f"{now:%Y-%m-%d}"
    for day in (DAYS[0], today):
        put(tmp_path, day)
    source = {
        "kind": "parquet",
        "path": str(tmp_path / "in"),
        "exclude": ["*/{scheduled:%Y-%m-%d}/*", "*/{{draft}}/*"],
    }
    spec = spec_of(tmp_path, source=source, sink={"kind": "parquet", "path": str(tmp_path / "out")})
    assert told(backfill(spec)) == ["published, 10 rows written"]
    assert told(backfill(spec)) == ["up to date, 1 input skipped"]
    assert [row["id"] for row in published(spec)] == [*range(100, 110)]


def test_a_run_for_each_day_oldest_first(daily: Path) -> None:
    spec = daily_spec(daily)
    batch_inference(spec, scheduled_time=datetime(2026, 1, 2))
    report = backfill(spec, *RANGE)
    assert [each["period"] for each in report["periods"]] == list(DAYS)
    assert table_of(report).count("<tr>") == 1 + len(DAYS)
    new, done = "published, 10 rows written", "up to date, 1 input skipped"
    assert told(report) == [new, done, new]
    cleared = ""  # as the form sends a box that is empty
    assert told(backfill(spec, *RANGE, every=cleared)) == [done] * 3
    put(daily, DAYS[2], "b", 900)
    more = "published, 10 rows written, 1 input skipped"
    assert told(backfill(spec, *RANGE)) == [done, done, more]
    other = daily_spec(daily, model=OTHER)
    assert told(backfill(other, *RANGE))[0] == "replaced, 10 rows written"
    assert told(backfill(other, *RANGE))[:2] == [done, done]
    assert ids_in(spec, daily / "out" / DAYS[0]) == list(range(100, 110))
    assert len(ids_in(spec, daily / "out" / DAYS[2])) == 20


def test_a_day_without_data_is_a_gap(daily: Path) -> None:
    shutil.rmtree(daily / "in" / DAYS[1])
    report = backfill(daily_spec(daily), *RANGE)
    assert [each["what"] for each in report["periods"]] == ["published", "no data", "published"]
    assert report["periods"][1]["without_data"] == [DAYS[1]]
    nowhere = daily_spec(daily, source={"kind": "parquet", "path": str(daily / "{scheduled:%d}")})
    with pytest.raises(InputNotFound, match="has no input at any of these times"):
        backfill(nowhere, *RANGE)
    allowed = {**nowhere.source.model_dump(), "on_empty": "succeed"}
    assert told(backfill(daily_spec(daily, source=allowed), *RANGE)) == ["no data"] * 3


def test_a_day_whose_inputs_are_gone_keeps_what_another_model_made_and_that_is_told(
    daily: Path,
) -> None:
    first = datetime(2026, 1, 1)
    backfill(daily_spec(daily), first, first)
    shutil.rmtree(daily / "in" / DAYS[0])
    stays = "no data, version 1 of another model or config stays"
    report = backfill(daily_spec(daily, model=OTHER), first, datetime(2026, 1, 2))
    assert told(report) == [stays, "published, 10 rows written"]
    assert report["periods"][0]["version"] == 1
    # Of the same model nothing is to be done.
    assert told(backfill(daily_spec(daily), first, first.replace(day=2)))[0] == "no data"


def test_a_day_has_data_if_something_lies_at_the_paths_that_name_it(daily: Path) -> None:
    """What lies at others is read each day, and makes no day of nothing one with data."""
    put(daily, "always", "a", 10)
    paths = [str(daily / "in" / DAY), str(daily / "in" / "always")]
    shutil.rmtree(daily / "in" / DAYS[1])
    spec = daily_spec(daily, source={"kind": "parquet", "path": paths})
    report = backfill(spec, *RANGE)
    assert [each["what"] for each in report["periods"]] == ["published", "no data", "published"]
    assert ids_in(spec, daily / "out" / DAYS[2]) == [*range(10, 20), *range(300, 310)]


def test_the_first_failure_stops_it_and_what_is_done_is_skipped(daily: Path) -> None:
    marker = daily / "failed"
    model = {"kind": "python", "class": "predictors:DiesOnce"}
    dies = {**model, "init": {"at": 205.0, "marker": str(marker)}}
    spec = daily_spec(daily, model=dies)
    again = r"(?s)gone for a moment.*stopped at 2026-01-02: run it"
    with pytest.raises(StageFailed, match=again) as caught:
        backfill(spec, *RANGE)
    assert "gone for a moment" in Path(caught.value.report or "").read_text()
    assert not (daily / "out" / DAYS[2]).exists()
    done, new = "up to date, 1 input skipped", "published, 10 rows written"
    assert told(backfill(spec, *RANGE)) == [done, new, new]


def test_where_another_run_holds_an_output_it_is_waited_for_and_nothing_mended(
    daily: Path,
) -> None:
    spec = daily_spec(daily)
    planned = make_plan(at_time(spec, datetime(2026, 1, 2)))
    elsewhere = replace(Holder.of(os.getpid()), host="elsewhere", at=time.time())
    save_holder(planned.storage, planned.run.lease, elsewhere)
    with pytest.raises(
        OutputHeld, match=r"wait for it or stop it\nThe backfill stopped at 2026-01-02: run"
    ):
        backfill(spec, *RANGE)


def test_an_unfinished_run_of_another_spec_is_given_up_only_on_ones_word(daily: Path) -> None:
    dies = {"kind": "python", "class": "predictors:Double", "init": {"dies": 209.0, "seconds": 0.1}}
    few = {"read": {"rows_per_batch": 1}}
    with pytest.raises(StageFailed):
        backfill(daily_spec(daily, model=dies, stages=few), *RANGE)
    other = daily_spec(daily, model=OTHER)
    with pytest.raises(UnfinishedRun, match=r"(?s)--restart.*stopped at 2026-01-02"):
        backfill(other, *RANGE)
    assert [each["what"] for each in backfill(other, *RANGE, restart=True)["periods"]] == [
        *("up to date", "published", "published")
    ]


def test_a_backfill_that_is_started_again_gives_up_what_it_was_to_and_not_what_it_has_begun(
    daily: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an automation starts the same flow run again whose worker died."""
    for day, dies in ((DAYS[1], 205.0), (DAYS[2], 305.0)):
        model = {"kind": "python", "class": "predictors:Double", "init": {"dies": dies}}
        with pytest.raises(StageFailed):
            batch_inference(at_time(daily_spec(daily, model=model), datetime.fromisoformat(day)))
    ids, published = list[str](), itertools.count(1)

    def has_restarted(portion: Portion, flow_run: str) -> bool:
        ids.append(flow_run)
        return output_status.has_restarted(portion, ids[0])

    def publish(planned: PlannedRun) -> int:
        if next(published) == 2:
            raise StageFailed("gone for a moment")
        return publish_planned(planned)

    monkeypatch.setattr(backfills, "has_restarted", has_restarted)
    monkeypatch.setattr(lineage, "publish_planned", publish)
    spec = daily_spec(daily, model=OTHER)
    with pytest.raises(StageFailed, match="stopped at 2026-01-02"):
        backfill(spec, *RANGE, restart=True)
    periods = backfill(spec, *RANGE, restart=True)["periods"]
    assert [(each["what"], each.get("resumed_rows")) for each in periods[1:]] == [
        ("published", 10),
        ("published", 0),
    ]


def inputs_of(spec: BatchInferenceSpec) -> list[str]:
    paths = ledger_of(at_time(spec, RANGE[0])).look().inputs["path"].to_pylist()
    return sorted(Path(path).parent.name for path in paths)


def test_all_days_in_one_output_are_one_run(daily: Path) -> None:
    shutil.rmtree(daily / "in" / DAYS[1])
    spec = daily_spec(daily, out="out")
    (done,) = backfill(spec, *RANGE)["periods"]
    assert done["period"] == "2026-01-01..2026-01-03"
    assert done["told"] == "published, 20 rows written, no data at 2026-01-02"
    # The schedule goes on in the same output.
    put(daily, "2026-01-04")
    assert batch_inference(spec, scheduled_time=datetime(2026, 1, 4))["rows"]["written"] == 10
    put(daily, DAYS[1])
    (again,) = backfill(spec, *RANGE)["periods"]
    assert again["told"] == "published, 10 rows written, 2 inputs skipped"
    other = daily_spec(daily, out="out", model=OTHER)
    with pytest.raises(InvalidSpec, match="drop the rows of 1 published input outside the range"):
        backfill(other, *RANGE)
    assert inputs_of(spec) == [*DAYS, "2026-01-04"]
    (whole,) = backfill(other, RANGE[0], datetime(2026, 1, 4))["periods"]
    assert whole["told"] == "replaced, 40 rows written"
    assert len(ids_in(spec, daily / "out")) == 40


def test_a_night_that_publishes_as_a_backfill_begins_keeps_its_rows(
    daily: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the look that tells a backfill what it would drop, before its run is planned."""
    spec, other = (daily_spec(daily, out="out", **more) for more in ({}, {"model": OTHER}))
    backfill(spec, *RANGE)
    put(daily, "2026-01-04")
    begin = backfills.run

    def run_after_the_night(*given: Any) -> Outcome:
        batch_inference(spec, scheduled_time=datetime(2026, 1, 4))
        return begin(*given)

    monkeypatch.setattr(backfills, "run", run_after_the_night)
    said = r"those of 1 published input outside it would be lost.*in/2026-01-04/a.*widen the range"
    with pytest.raises(InvalidSpec, match=said):
        backfill(other, *RANGE)
    assert inputs_of(spec) == [*DAYS, "2026-01-04"]
    assert len(ids_in(spec, daily / "out")) == 40


def test_days_that_are_one_run_know_of_the_inputs_of_all_others(
    daily: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which are no code, and stay at home where that is sent to a cluster."""
    known: list[tuple[str, ...]] = []

    def plan(
        written: BatchInferenceSpec, filled: BatchInferenceSpec, options: RunOptions
    ) -> PlannedRun:
        known.append(options.timed_inputs)
        return plan_after_unfinished(written, filled, options)

    monkeypatch.setattr("flows.batch_inference.plan_after_unfinished", plan)
    spec = daily_spec(daily, out="out")
    backfill(spec, *RANGE)
    assert known == [timed_inputs(spec)] != [()]


def test_an_output_that_a_part_of_the_day_was_for_loses_nothing(daily: Path) -> None:
    """Two runs a day share an output: a range of one of them is no new version of both."""
    half = {
        "kind": "parquet",
        "path": str(daily / "in" / "{scheduled:%Y-%m-%d}" / "{scheduled:%p}*"),
    }
    for name, first in (("AM", 100), ("PM", 200)):
        put(daily, DAYS[0], name, first)
    spec = daily_spec(daily, source=half)
    noon = datetime(2026, 1, 1, 12)
    (done,) = backfill(spec, RANGE[0], noon, "12h")["periods"]
    assert done["rows"]["written"] == 20
    other = daily_spec(daily, source=half, model=OTHER)
    with pytest.raises(InvalidSpec, match=r"outside the range .*AM\.parquet"):
        backfill(other, noon, noon, "12h")


def test_a_range_of_one_day_takes_no_rows_of_others_whose_inputs_were_tidied_away(
    daily: Path,
) -> None:
    spec, other = (daily_spec(daily, out="out", **more) for more in ({}, {"model": OTHER}))
    put(daily, DAYS[1], "b", 900)
    backfill(spec, *RANGE)
    (daily / "in" / DAYS[1] / "b.parquet").unlink()
    for day in (DAYS[0], DAYS[2]):
        shutil.rmtree(daily / "in" / day)
    only = datetime(2026, 1, 2)
    with pytest.raises(InvalidSpec, match="drop the rows of 2 published inputs outside the range"):
        backfill(other, only, only)
    with pytest.raises(
        InvalidSpec, match=r"3 published inputs that are no longer .*: put them back"
    ):
        backfill(other, *RANGE)
    assert len(ids_in(spec, daily / "out")) == 40


def test_a_mode_that_replaces_is_done_when_nothing_has_changed(daily: Path) -> None:
    sink = {"kind": "parquet", "path": str(daily / "out" / "{scheduled:%d}"), "mode": "replace"}
    spec = daily_spec(daily, sink=sink)
    assert told(backfill(spec, *RANGE)) == ["published, 10 rows written"] * 3
    assert told(backfill(spec, *RANGE)) == ["up to date, 1 input skipped"] * 3


def test_a_storage_that_is_away_is_said_to_be(daily: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise ConnectionError("no route to it")

    monkeypatch.setattr(output_status, "bring_up_to_date", away)
    with pytest.raises(
        Unreachable, match=r"sink\.path: the storage does not answer.*\n.*stopped at"
    ):
        backfill(daily_spec(daily), *RANGE)
