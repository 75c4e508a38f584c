"""Nights that share an output: the next one finishes what another has left."""

import shutil
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import attempts
from flows import batch_inference as flow_runs
from flows.backfill import backfill
from flows.batch_inference import batch_inference
from flows.planning import plan_run
from tasks import publish
from tasks.errors import (
    GateFailed,
    InputNotFound,
    InvalidSpec,
    OutputHeld,
    UnfinishedRun,
    Unreachable,
)
from tasks.lease import load_holder
from tasks.ledgers import ledger_of
from tasks.lineage import publish_run
from tasks.plan import PlannedRun
from tasks.planning.unfinished import UnfinishedRuns
from tasks.publish import pin_published_types
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tests.flows.daily import DAY, OTHER, daily_spec, ids_in, put
from tests.flows.jobs_cluster import await_that

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

FIRST, SECOND = (datetime(2026, 1, day, 2, tzinfo=UTC) for day in (1, 2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for day in ("2026-01-01", "2026-01-02"):
        put(tmp_path, day)
    return tmp_path


@pytest.fixture
def unattended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a deployment's run."""
    monkeypatch.setattr(flow_runs, "is_deployment_run", lambda: True)


@pytest.fixture
def begun(folder: Path, monkeypatch: pytest.MonkeyPatch) -> BatchInferenceSpec:
    """A spec whose first night has failed to publish what it had predicted."""
    spec = daily_spec(folder, out="out")
    with monkeypatch.context() as outage:
        fail_at(FIRST, spec, outage)
    return spec


def fail_at(time: datetime, spec: BatchInferenceSpec, outage: pytest.MonkeyPatch) -> None:
    """A night that does not publish what it has predicted."""
    outage.setattr(attempts, "publish_run", unreachable)
    with pytest.raises(Unreachable, match="all night"):
        batch_inference(spec, scheduled_time=time)


def unreachable(_: Any) -> int:
    raise Unreachable("the storage is away all night")


@pytest.mark.usefixtures("unattended")
def test_the_next_night_finishes_what_an_outage_has_left(
    begun: BatchInferenceSpec, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    report = batch_inference(begun, scheduled_time=SECOND)
    assert (report["version"], report["rows"]["written"]) == (2, 10), "the report is of its own"
    assert ids_in(begun, folder / "out") == [*range(100, 110), *range(200, 210)]
    assert "the unfinished run of 2026-01-01T02:00:00+00:00 is finished first" in caplog.text
    assert ledger_of(begun).look().entries[1]["rows"]["written"] == 10
    assert "attempt 2" not in caplog.text, "what the first night had predicted was kept"


def test_a_run_is_held_while_it_is_published(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next night would find nobody at work on it, and give it up or get in its way."""
    monkeypatch.setattr("tasks.lease.RENEW_SECONDS", 0.05)
    said: list[float] = []

    def look(planned: PlannedRun) -> float:
        holder = load_holder(planned.storage, planned.run.lease)
        assert holder
        said.append(holder.at)
        return holder.at

    def publish_slowly(planned: PlannedRun) -> int:
        first = look(planned)
        await_that(lambda: look(planned) > first, "it is not said again", seconds=60)
        return publish_run(planned)

    monkeypatch.setattr(attempts, "publish_run", publish_slowly)
    assert batch_inference(daily_spec(folder), scheduled_time=FIRST)["version"] == 1
    assert len(said) > 1


@pytest.mark.usefixtures("unattended")
def test_what_waits_for_a_person_still_does(folder: Path) -> None:
    gates = [{"kind": "rows", "minimum": 11}]
    spec = daily_spec(folder, out="out", gates=gates)
    with pytest.raises(GateFailed):
        batch_inference(spec, scheduled_time=FIRST)
    of_the_first = r"1 of 1 gate failed(.*\n)*.*--accept .* with --scheduled-time 2026-01-01T02"
    for accept in (False, True):  # a word is of one night's rows
        with pytest.raises(GateFailed, match=of_the_first):
            batch_inference(spec, scheduled_time=SECOND, accept=accept)
    assert ledger_of(spec).look().version == 0
    assert batch_inference(spec, scheduled_time=FIRST, accept=True)["version"] == 1


def test_a_person_is_told_instead(begun: BatchInferenceSpec) -> None:
    with pytest.raises(UnfinishedRun, match="--scheduled-time 2026-01-01T02:00:00"):
        batch_inference(begun, scheduled_time=SECOND)


@pytest.mark.usefixtures("unattended")
def test_a_backfill_that_cannot_finish_a_nights_run_says_so(begun: BatchInferenceSpec) -> None:
    """Its paths are spelled out, and so name no time that could be that night's."""
    with pytest.raises(UnfinishedRun, match="--scheduled-time 2026-01-01T02:00:00"):
        backfill(begun, FIRST, SECOND)
    assert ledger_of(begun).look().version == 0


def test_a_night_is_told_how_to_finish_a_backfill_of_several(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = daily_spec(folder, out="out")
    with monkeypatch.context() as outage:
        outage.setattr(attempts, "publish_run", unreachable)
        with pytest.raises(Unreachable, match=r"stopped at 2026-01-01\.\.2026-01-02"):
            backfill(spec, FIRST.replace(hour=0), SECOND.replace(hour=0))
    said = r"of another spec, with 20 rows done; what differs: source.*If a backfill of several"
    with pytest.raises(UnfinishedRun, match=said):
        batch_inference(spec, scheduled_time=SECOND)


@pytest.mark.usefixtures("unattended")
def test_a_night_whose_inputs_were_withdrawn_is_named_with_the_way_out(
    begun: BatchInferenceSpec, folder: Path
) -> None:
    shutil.rmtree(folder / "in" / "2026-01-01")
    said = r"the unfinished run of the scheduled time 2026-01-01T02.*\n?.*--restart"
    with pytest.raises(InputNotFound, match=said):
        batch_inference(begun, scheduled_time=SECOND)
    assert batch_inference(begun, restart=True, scheduled_time=SECOND)["version"] == 1


@pytest.mark.usefixtures("unattended")
def test_a_night_whose_inputs_were_withdrawn_and_may_be_is_in_no_others_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"kind": "parquet", "path": str(folder / "in" / DAY), "on_empty": "succeed"}
    spec = daily_spec(folder, out="out", source=source)
    with monkeypatch.context() as outage:
        fail_at(FIRST, spec, outage)
    shutil.rmtree(folder / "in" / "2026-01-01")
    assert batch_inference(spec, scheduled_time=SECOND)["version"] == 1
    assert ids_in(spec, folder / "out") == [*range(200, 210)]


@pytest.mark.usefixtures("unattended")
def test_two_nights_that_are_in_each_others_way_are_both_finished(
    begun: BatchInferenceSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They had begun at the same moment, before either could see the other, and both failed."""
    with monkeypatch.context() as outage:
        outage.setattr(UnfinishedRuns, "refuse_others", lambda *_: None)
        fail_at(SECOND, begun, outage)
    put(folder, "2026-01-03")
    report = batch_inference(begun, scheduled_time=datetime(2026, 1, 3, 2, tzinfo=UTC))
    assert report["version"] == 3
    assert ids_in(begun, folder / "out") == [id_ for day in (1, 2, 3) for id_ in ids_of(day)]


@pytest.mark.usefixtures("unattended")
@pytest.mark.parametrize("first_look", [pin_published_types, lambda _: None])
def test_of_two_first_nights_of_other_types_the_later_takes_the_earliers(
    begun: BatchInferenceSpec, folder: Path, monkeypatch: pytest.MonkeyPatch, first_look: Any
) -> None:
    """Also where the earlier one publishes between the later one's look and its entry."""
    retype(folder / "in" / "2026-01-02" / "a.parquet", pa.int32())
    looks = chain([first_look], repeat(pin_published_types))
    monkeypatch.setattr(UnfinishedRuns, "refuse_others", lambda *_: None)

    def publish_after_the_first(planned: PlannedRun) -> int:
        monkeypatch.setattr(attempts, "publish_run", publish_run)
        batch_inference(begun, scheduled_time=FIRST)
        monkeypatch.setattr(publish, "pin_published_types", lambda planned: next(looks)(planned))
        return publish_run(planned)

    monkeypatch.setattr(attempts, "publish_run", publish_after_the_first)
    assert batch_inference(begun, scheduled_time=SECOND)["version"] == 2
    assert ids_in(begun, folder / "out") == [*range(100, 110), *range(200, 210)]
    files = sorted((folder / "out").rglob("*.parquet"))
    assert [pq.read_schema(each).field("id").type for each in files] == [pa.int64()] * 2


@pytest.mark.usefixtures("unattended")
def test_an_unfinished_night_blocks_no_later_one_that_takes_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = in_place_of_the_last(daily_spec(folder, out="out"))
    with monkeypatch.context() as outage:
        fail_at(FIRST, spec, outage)
    with pytest.raises(UnfinishedRun, match="--scheduled-time 2026-01-01T02:00:00"):
        batch_inference(spec, scheduled_time=SECOND, replace_output=True)
    assert batch_inference(spec, scheduled_time=SECOND)["version"] == 2
    assert ids_in(spec, folder / "out") == ids_of(2)


@pytest.mark.parametrize("is_attended", [True, False])
def test_a_backfill_in_place_of_the_last_finishes_an_unfinished_night_or_says_how(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_attended: bool
) -> None:
    """By its mode it makes what the night was to make: it is no run of another spec to it."""
    monkeypatch.setattr(flow_runs, "is_deployment_run", lambda: not is_attended)
    spec = in_place_of_the_last(daily_spec(folder, out="out"))
    with monkeypatch.context() as outage:
        fail_at(FIRST, spec, outage)
    said = "which has other inputs: finish it first, with --scheduled-time 2026-01-01T02:00:00"
    with pytest.raises(UnfinishedRun, match=said):
        backfill(spec, FIRST, SECOND)
    if is_attended:
        with pytest.raises(UnfinishedRun, match=said):
            backfill(spec, SECOND, SECOND)
        batch_inference(spec, scheduled_time=FIRST)
    backfill(spec, SECOND, SECOND)
    assert ledger_of(spec).look().version == 2
    assert ids_in(spec, folder / "out") == ids_of(2)


@pytest.mark.usefixtures("unattended")
def test_a_night_that_a_backfill_finishes_first_takes_no_later_ones_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of it nobody has asked for its very time."""
    spec = in_place_of_the_last(daily_spec(folder, out="out"))
    with monkeypatch.context() as outage:
        fail_at(FIRST, spec, outage)
    seen = list[RunOptions]()

    def planned(spec: BatchInferenceSpec, options: RunOptions) -> PlannedRun:
        seen.append(options)
        return plan_run(spec, options)

    monkeypatch.setattr("flows.batch_inference.plan_run", planned)
    backfill(spec, SECOND, SECOND)
    times = [(each.scheduled_time, each.is_backfill) for each in seen]
    assert times == [(SECOND, True), (FIRST, False), (SECOND, True)]


@pytest.mark.usefixtures("unattended")
@pytest.mark.parametrize("is_finished_by_the_next", [True, False])
def test_a_night_that_is_started_again_takes_no_later_nights_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_finished_by_the_next: bool
) -> None:
    """Its process died before it had published, or after; either way its rows have been there."""
    spec = in_place_of_the_last(daily_spec(folder, out="out"))
    monkeypatch.setattr(flow_runs, "own_flow_runs", lambda: ("first",))
    if is_finished_by_the_next:
        with monkeypatch.context() as outage:
            fail_at(FIRST, spec, outage)
    else:
        batch_inference(spec, scheduled_time=FIRST)
    with monkeypatch.context() as next_night:
        next_night.setattr(flow_runs, "own_flow_runs", lambda: ("second",))
        batch_inference(spec, scheduled_time=SECOND)
    assert not batch_inference(spec, scheduled_time=FIRST)["published"]
    assert ids_in(spec, folder / "out") == ids_of(2)


def test_a_night_that_comes_after_a_later_one_does_not_take_its_place(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After days without a worker those that wait for each other begin in any order."""
    spec = in_place_of_the_last(daily_spec(folder, out="out"))
    assert batch_inference(spec, scheduled_time=SECOND)["version"] == 1
    as_it_was = spec.model_copy(update={"model": daily_spec(folder, model=OTHER).model})
    for late in (spec, as_it_was):
        caplog.clear()
        assert not batch_inference(late, scheduled_time=FIRST)["published"]
        assert "a later scheduled time, 2026-01-02T02:00:00+00:00" in caplog.text
    assert ids_in(spec, folder / "out") == ids_of(2)
    batch_inference(spec, scheduled_time=FIRST, replace_output=True)
    assert ids_in(spec, folder / "out") == ids_of(1), "on somebody's word it does"
    batch_inference(spec, scheduled_time=SECOND)
    backfill(spec, FIRST, FIRST)
    assert ids_in(spec, folder / "out") == ids_of(1), "so does a backfill of that time"


def test_of_nights_that_begin_at_the_same_moment_the_latest_ones_rows_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sees the other as it is planned; the later one may well be done first."""
    spec = in_place_of_the_last(daily_spec(folder, out="out"))
    monkeypatch.setattr(UnfinishedRuns, "refuse_others", lambda *_: None)

    def publish_after_the_second(planned: PlannedRun) -> int:
        monkeypatch.setattr(attempts, "publish_run", publish_run)
        batch_inference(spec, scheduled_time=SECOND)
        return publish_run(planned)

    monkeypatch.setattr(attempts, "publish_run", publish_after_the_second)
    with pytest.raises(OutputHeld, match=r"a later scheduled time, 2026-01-02T02:.*nothing is"):
        batch_inference(spec, scheduled_time=FIRST)
    assert ids_in(spec, folder / "out") == ids_of(2)
    assert not batch_inference(spec, scheduled_time=FIRST)["published"]


def in_place_of_the_last(spec: BatchInferenceSpec) -> BatchInferenceSpec:
    """The spec, by which each run replaces what the one before has published."""
    return spec.model_copy(update={"sink": spec.sink.model_copy(update={"mode": "replace"})})


def test_a_new_version_of_one_night_takes_no_other_nights_rows_along(folder: Path) -> None:
    spec = daily_spec(folder, out="out")
    for night in (FIRST, SECOND):
        batch_inference(spec, scheduled_time=night)
    with pytest.raises(InvalidSpec, match=r"1 published input of other times.*in/2026-01-01/a"):
        batch_inference(spec, scheduled_time=SECOND, replace_output=True)
    assert ids_in(spec, folder / "out") == [*ids_of(1), *ids_of(2)]
    last = in_place_of_the_last(spec)
    assert batch_inference(last, scheduled_time=SECOND, replace_output=True)["version"] == 3
    assert ids_in(spec, folder / "out") == ids_of(2)


def retype(file: Path, kind: pa.DataType) -> None:
    """Give the ids of an input another type."""
    table = pq.read_table(file)
    at = table.schema.get_field_index("id")
    pq.write_table(table.set_column(at, "id", table["id"].cast(kind)), file)


def ids_of(day: int) -> list[int]:
    return [*range(day * 100, day * 100 + 10)]


@pytest.mark.usefixtures("unattended")
def test_an_earlier_night_that_fails_again_is_reported_where_it_says(
    begun: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "publish_run", unreachable)
    with pytest.raises(Unreachable, match="the unfinished run of the scheduled time") as caught:
        batch_inference(begun, scheduled_time=SECOND)
    assert "away all night" in Path(caught.value.report or "").read_text()
