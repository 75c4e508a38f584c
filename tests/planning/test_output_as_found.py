"""An output held against its ledger: another name of it, one whose state is gone, or its rows."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InvalidSpec, Unreachable
from tasks.ledgers import ledger_of
from tasks.output_status import look_at
from tasks.outputs import output_of
from tasks.periods import Portion
from tasks.plan import make_plan
from tasks.planning.output_as_found import refuse_unknown, state_on_another_disk
from tasks.planning.preflight import check_spec
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.layout import OutputFolder
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage
from tasks.publish import publish_planned
from tasks.published import published_rows
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.flows.test_object_stores import predict
from tests.reporting import classify_spec, make_inputs, run_spec


@pytest.mark.parametrize("how", ["the state is gone", "the ledger is gone", "by a link's name"])
def test_rows_that_no_ledger_knows_are_refused(tmp_path: Path, how: str) -> None:
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path)
    run_spec(spec)
    out = Path(spec.sink.path)
    before = sorted(file.stat().st_mtime_ns for file in out.iterdir())
    if how != "by a link's name":
        shutil.rmtree(f"{out}.state" if how == "the state is gone" else f"{out}.state/ledger")
    else:
        link = tmp_path / "link"
        link.symlink_to(out)
        spec = classify_spec(tmp_path, sink={"kind": "parquet", "path": str(link)})
    with pytest.raises(
        InvalidSpec, match=r"sink\.path.* has .*/part-00001-00000\.parquet, but no run"
    ):
        make_plan(spec)
    assert sorted(file.stat().st_mtime_ns for file in out.iterdir()) == before


def test_an_output_that_is_removed_with_its_ledger_only_goes_with_all_of_its_state(
    tmp_path: Path,
) -> None:
    """Else rows that were set aside would lie beside those of the new ledger."""
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path)
    run_spec(spec)
    before = sorted(Path(spec.sink.path).iterdir())
    aside = Path(f"{spec.sink.path}.state/quarantine/part-00002-00000.parquet")
    aside.parent.mkdir(exist_ok=True)
    aside.touch()
    for gone in (spec.sink.path, f"{spec.sink.path}.state/ledger"):
        shutil.rmtree(gone)
    with pytest.raises(InvalidSpec, match=rf"has {aside}, .* or delete .*/out and .*/out\.state"):
        make_plan(spec)
    aside.unlink()
    run_spec(spec)
    assert sorted(Path(spec.sink.path).iterdir()) == before


def test_who_looked_before_the_first_run_was_published_is_not_refused(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path)
    run_spec(spec)
    refuse_unknown(*output_of(spec), ledger_of(spec))


def test_files_of_others_are_let_be(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path)
    theirs = Path(spec.sink.path) / "part-00000-3f2a1b4c-0d9e-4f6a-8b7c-c000.snappy.parquet"
    theirs.parent.mkdir()
    theirs.touch()
    for hidden in ("_SUCCESS", ".part.parquet.crc", "_tmp/part.parquet", "README.md"):
        (theirs.parent / hidden).parent.mkdir(exist_ok=True)
        (theirs.parent / hidden).touch()
    (said,) = make_plan(spec, save=False).notes
    assert (
        f"has 1 .parquet file that this output did not write, the first {theirs}: whoever" in said
    )
    run_spec(spec)
    assert theirs.exists()
    assert make_plan(spec).notes == []


def test_a_spec_of_another_name_is_told_whose_rows_it_adds_to(tmp_path: Path) -> None:
    """One was copied, given another source and name, and its sink left as it was."""
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path)
    run_spec(spec)
    make_inputs(tmp_path / "in" / "new", files=1)
    assert make_plan(spec, save=False).notes == []
    other = spec.model_copy(update={"name": "other"})
    (said,) = make_plan(other, save=False).notes
    assert said.startswith("name: version 1 was published by 'Pets_nightly', and 'other' adds its")
    assert make_plan(other, RunOptions(replace_output=True), save=False).notes == []
    run_spec(other)
    assert make_plan(other, save=False).notes == []


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_an_output_that_was_removed_without_its_state_is_refused(tmp_path: Path, kind: str) -> None:
    make_inputs(tmp_path / "in", files=1)
    spec = classify_spec(tmp_path, sink={"kind": kind, "path": str(tmp_path / "out")})
    run_spec(spec)
    shutil.rmtree(spec.sink.path)
    with pytest.raises(
        InvalidSpec, match=r"was removed, but .*/out\.state is still there .*1 file of"
    ):
        make_plan(spec)
    with pytest.raises(InvalidSpec, match=r"was removed"):  # else a backfill says that all is done
        look_at(Portion(spec, ()), check_spec(spec))
    assert len(make_plan(spec, RunOptions(replace_output=True)).plan.shards) == 1
    shutil.rmtree(f"{spec.sink.path}.state")
    run_spec(spec)


def test_who_takes_published_files_away_is_told_that_they_are_not_made_again(
    tmp_path: Path,
) -> None:
    """Who loads them elsewhere means that: later runs go on."""
    make_inputs(tmp_path / "in", files=2)
    spec = classify_spec(tmp_path)
    run_spec(spec)
    first, *others = Path(spec.sink.path).glob("*.parquet")
    for file in others:
        file.unlink()
    assert not make_plan(spec).notes, "what ages away file by file is nobody's mistake"
    first.unlink()
    assert (Path(spec.sink.path) / "_SUCCESS").exists()
    told = f"the published rows, 2 files, are no longer in {spec.sink.path} and are not made"
    planned = make_plan(spec)
    assert planned.nothing_to_do
    assert told in "".join(planned.notes)
    assert told in "".join(look_at(Portion(spec, ()), check_spec(spec)).notes)


def test_a_backfill_makes_the_rows_anew_that_were_removed_of_an_output_that_is_replaced(
    tmp_path: Path,
) -> None:
    make_inputs(tmp_path / "in", files=1)
    sink = {"kind": "parquet", "path": str(tmp_path / "out"), "mode": "replace"}
    spec = classify_spec(tmp_path, sink=sink)
    run_spec(spec)
    fingerprints = check_spec(spec)
    assert look_at(Portion(spec, ()), fingerprints).is_done
    shutil.rmtree(spec.sink.path)
    assert not look_at(Portion(spec, ()), fingerprints).is_done


def test_a_new_output_that_is_a_disk_of_its_own_is_told_of(tmp_path: Path) -> None:
    """A container's volume stays, and what lies beside it goes with the container."""
    storage, output = output_of(classify_spec(tmp_path))
    assert state_on_another_disk(storage, output) == []
    (told,) = state_on_another_disk(storage, OutputFolder("/proc"))
    assert told.startswith("sink.path: /proc is a separate disk, and /proc.state, which records")
    assert told.endswith("such as /proc/predictions")


@pytest.mark.parametrize("with_parts", [False, True])
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg", "lance"])
def test_a_state_that_is_older_than_its_rows_is_refused(
    tmp_path: Path, kind: str, with_parts: bool
) -> None:
    """As one of a backup: its next version would be there twice, or count as being there."""
    if with_parts and kind == "lance":
        pytest.skip("a Lance dataset has no parts")
    sink = {"kind": kind, "path": str(tmp_path / "out"), "partition_by": ["day"] * with_parts}
    spec, state = spec_of(tmp_path / "in", sink=sink), tmp_path / "out.state"
    (tmp_path / "in").mkdir()
    for night in range(3):
        rows = pa.table({"day": [f"d{night}"], "x": [float(night)]})
        pq.write_table(rows, tmp_path / f"in/{night}.parquet")
        publish(spec)
        shutil.copytree(state, tmp_path / f"backup-{night}")
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "backup-0", state)
    for options in (RunOptions(), RunOptions(replace_output=True)):
        with pytest.raises(InvalidSpec, match=r"is at version 3 .* ends with version 1, as after"):
            make_plan(spec, options)
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "backup-2", state)
    pq.write_table(rows, tmp_path / "in/3.parquet")
    assert publish(spec) == 4
    assert published_rows(spec).num_rows == 4


def test_an_output_within_another_one_does_not_count_as_its_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "in/0.parquet")
    outer = spec_of(tmp_path / "in", sink={"kind": "parquet", "path": str(tmp_path / "out")})
    within = spec_of(tmp_path / "in", sink={"kind": "parquet", "path": str(tmp_path / "out/more")})
    assert make_plan(within, save=False).notes == []
    publish(outer)
    (said,) = make_plan(within, save=False).notes
    assert said.startswith(
        f"sink.path: {within.sink.path} is inside {outer.sink.path}, which is an"
    )
    for number in (1, 2):
        assert publish(within) == number
        pq.write_table(pa.table({"x": [1.0]}), tmp_path / f"in/{number}.parquet")
    assert publish(outer) == 2
    assert make_plan(within, save=False).notes == []


def publish(spec: BatchInferenceSpec) -> int:
    """Run a spec to its end; the version that it has published."""
    planned = make_plan(spec)
    predict(planned)
    return publish_planned(planned)


@pytest.mark.parametrize("scheme", ["ftp", "sftp", "webdav", "smb"])
def test_a_storage_that_keeps_no_ledger_is_not_taken_for_a_new_output(scheme: str) -> None:
    told = rf"^sink\.path: '{scheme}://host/out\.state/ledger' is where deltalake cannot keep"
    with pytest.raises(InvalidSpec, match=told):
        DeltaLedger(f"{scheme}://host/out.state/ledger").look()


def test_a_ledger_that_would_be_gone_at_once_is_told_before_anything_starts(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path, sink={"kind": "parquet", "path": "memory://out"})
    with pytest.raises(
        InvalidSpec, match=r"^sink\.path: '/out' is where deltalake, .* cannot find"
    ):
        make_plan(spec)


def test_a_storage_that_is_away_when_a_plan_is_done_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in", files=1)
    spec = classify_spec(tmp_path)
    run_spec(spec)
    stat = FsspecStorage.stat

    def lost(storage: FsspecStorage, path: str) -> Stat | None:
        if path.endswith(".parquet"):
            raise ConnectionError("no route")
        return stat(storage, path)

    monkeypatch.setattr(FsspecStorage, "stat", lost)
    with pytest.raises(Unreachable, match=r"^sink\.path: the storage does not answer"):
        make_plan(spec)
