"""Tables whose log no longer says, or not reliably, which of our entries are in them."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InvalidSpec
from tasks.plan import make_plan
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.publishing import entry_for
from tasks.publish import publish_planned
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.flows.test_object_stores import predict
from tests.tables.bench import TableBench, rows_of
from tests.tables.conftest import SINKS
from tests.tables.foreigners import APPEND, CLEAN, COMPACT, EMPTY, FOREIGN, REWRITE, lance
from tests.tables.readers import frame_of, rows_in
from tests.tables.test_upsert import go_back

UNMARKED = r"lost 1 file of this output, .* and has others: somebody has rewritten"


def refused(bench: TableBench, key: str, inputs: dict[str, str], match: str) -> str:
    """A run is refused before its entry is decided; returns the reason."""
    rows, version = rows_in(bench), bench.ledger.look().version
    with pytest.raises(InvalidSpec, match=match) as error:
        bench.run(key, inputs)
    assert (rows_in(bench), bench.ledger.look().version) == (rows, version)
    return str(error.value)


def compacted_and_cleaned(bench: TableBench) -> None:
    """Two entries, the last of which replaced rows; no file of theirs is there any more."""
    bench.run("k1", {"a": "v1"})
    bench.run("k2", {"a": "v2"})
    APPEND[bench.kind](bench)
    COMPACT[bench.kind](bench)
    CLEAN[bench.kind](bench)


def test_a_compacted_and_cleaned_table_takes_new_inputs_only(bench: TableBench) -> None:
    """Where Lance has removed rows, its mark is in a transaction, which is cleaned away with it."""
    compacted_and_cleaned(bench)
    for number in range(2):
        bench.run(f"new-{number}", {f"new-{number}": "v1"})
    rows = rows_of({"a": "v2", "new-0": "v1", "new-1": "v1"}) + FOREIGN
    assert rows_in(bench) == sorted(rows)
    said = refused(bench, "k3", {"a": "v3"}, "lost 1 file of this output, .* and has others")
    assert "delete all of the table's rows and run again with --replace-output" in said
    EMPTY[bench.kind](bench)
    bench.run("k4", {"a": "v3"}, replaces=True)
    bench.run("k5", {"b": "v1"})
    assert rows_in(bench) == rows_of({"a": "v3", "b": "v1"})


def test_an_entry_that_was_decided_is_not_stopped_by_a_cleaned_log(bench: TableBench) -> None:
    """As one that an earlier release had decided and refused ever since."""
    compacted_and_cleaned(bench)
    seen, what = bench.ledger.look(), bench.prepare("k3", {"b": "v1"})
    bench.ledger.commit(entry_for(bench.storage, bench.output, seen, what), seen)
    bring_up_to_date(bench.storage, bench.ledger, bench.output)
    assert rows_in(bench) == rows_of({"a": "v2", "b": "v1"}) + FOREIGN


@pytest.mark.parametrize("kind", ["iceberg", "lance"])
@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_table_that_others_have_written_anew_gets_no_row_twice(
    bench: TableBench, *, is_cleaned: bool
) -> None:
    bench.run("k1", {"a": "v1"})
    REWRITE[bench.kind](bench)
    if is_cleaned:
        CLEAN[bench.kind](bench)
    said = refused(bench, "k2", {"b": "v1"}, UNMARKED)
    refused(bench, "k3", {"a": "v2"}, UNMARKED)
    if is_cleaned:
        assert "No version with all of them remains" in said
        EMPTY[bench.kind](bench)
        bench.run("k4", {"a": "v1", "b": "v1"}, replaces=True)
    else:
        go_back(bench, said)
        bench.run("k5", {"b": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1"})


@pytest.mark.parametrize("kind", ["delta"])
def test_a_delta_table_that_others_have_written_anew_keeps_its_mark(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    bench.run("k2", {"a": "v2"})
    REWRITE["delta"](bench)
    CLEAN["delta"](bench)
    bench.run("k3", {"b": "v1"})
    assert rows_in(bench) == rows_of({"a": "v2", "b": "v1"})
    refused(bench, "k4", {"a": "v3"}, "lost 1 file of this output, .* and has others")


@pytest.mark.parametrize("is_there", [False, True])
def test_what_a_backup_lacks_is_put_into_it_before_anything_is_decided(
    bench: TableBench, tmp_path: Path, *, is_there: bool
) -> None:
    """Where the data files are there still."""
    bench.run("k1", {"a": "v1"})
    back_up(tmp_path)
    bench.run("k2", {"b": "v1"})
    (file,) = (each for each in bench.ledger.look().files.values() if each.version == 2)
    content = bench.storage.read(file.target(bench.output))
    bring_back(tmp_path)
    if is_there:
        bench.storage.write(file.target(bench.output), content)
        bench.run("k3", {"c": "v1"})
        assert rows_in(bench) == rows_of({"a": "v1", "b": "v1", "c": "v1"})
        return
    said = refused(
        bench, "k3", {"c": "v1"}, "lacks 1 file .*backup, and 1 of them are no longer in"
    )
    assert file.target(bench.output) in said
    bench.run("k4", {"a": "v1", "c": "v1"}, replaces=True)
    assert rows_in(bench) == rows_of({"a": "v1", "c": "v1"})


def test_a_backup_that_was_compacted_is_refused_before_anything_is_decided(
    bench: TableBench, tmp_path: Path
) -> None:
    """The rows that a later entry had replaced are there again, in files of others."""
    bench.run("k1", {"a": "v1"})
    back_up(tmp_path)
    bench.run("k2", {"a": "v2"})
    bring_back(tmp_path)
    APPEND[bench.kind](bench)
    COMPACT[bench.kind](bench)
    refused(bench, "k3", {"b": "v1"}, "lost 1 file of this output, .* and has others")


def places(folder: Path) -> list[Path]:
    """What belongs to the table: its folder, and a catalog beside it."""
    return [each for each in folder.glob("out*") if not each.name.endswith(".state")]


def back_up(folder: Path) -> None:
    for each in places(folder):
        (shutil.copytree if each.is_dir() else shutil.copy)(each, folder / f"backup-{each.name}")


def bring_back(folder: Path) -> None:
    for each in places(folder):
        shutil.rmtree(each) if each.is_dir() else each.unlink()
        (folder / f"backup-{each.name}").rename(each)


@pytest.mark.parametrize("kind", ["lance"])
@pytest.mark.parametrize("others", [False, True])
def test_a_lance_dataset_that_was_brought_back_and_cleaned_is_not_taken_for_a_compacted_one(
    bench: TableBench, *, others: bool
) -> None:
    bench.run("k1", {"a": "v1"})
    old = lance(bench).version
    bench.run("k2", {"a": "v2"})
    bench.table.open(old).restore()  # type: ignore[attr-defined]
    if others:
        APPEND["lance"](bench)
    CLEAN["lance"](bench)
    refused(bench, "k3", {"b": "v1"}, UNMARKED if others else "lacks 1 file of this output")
    EMPTY["lance"](bench)
    bench.run("k4", {"a": "v2", "b": "v1"}, replaces=True)
    assert rows_in(bench) == rows_of({"a": "v2", "b": "v1"})


def run(spec: BatchInferenceSpec) -> None:
    planned = make_plan(spec)
    predict(planned)
    publish_planned(planned)


def spec_into(kind: str, folder: Path, rows: int) -> BatchInferenceSpec:
    """A spec of an output, over inputs of which there is one more."""
    pq.write_table(pa.table({"id": [rows], "x": [1.0]}), folder / f"{rows}.parquet")
    source = {"kind": "parquet", "path": str(folder / "*.parquet")}
    return spec_of(folder / "in", source=source, sink={"kind": kind, "path": str(folder / "out")})


@pytest.mark.parametrize("kind", ["iceberg", "lance"])
def test_who_would_be_refused_in_the_end_is_refused_when_it_is_planned(
    kind: str, tmp_path: Path
) -> None:
    run(spec_into(kind, tmp_path, 0))
    bench = TableBench(SINKS[kind](path=str(tmp_path / "out")))
    REWRITE[kind](bench)
    with pytest.raises(InvalidSpec, match=UNMARKED):
        make_plan(spec_into(kind, tmp_path, 1))


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize("lost", ["out.state", "out.state/ledger"])
def test_a_table_whose_ledger_is_gone_is_refused(kind: str, tmp_path: Path, lost: str) -> None:
    """Its rows would be added to it again."""
    for rows in range(2):
        run(spec_into(kind, tmp_path, rows))
    shutil.rmtree(tmp_path / lost)
    again = spec_into(kind, tmp_path, 2)
    with pytest.raises(
        InvalidSpec, match=r"has .*/part-.*, but no run .* or the ledger in it, was"
    ):
        make_plan(again)
    bench = TableBench(SINKS[kind](path=str(tmp_path / "out")))
    EMPTY[kind](bench)
    shutil.rmtree(tmp_path / "out.state", ignore_errors=True)
    run(again)
    assert sorted(frame_of(bench)["id"]) == [0, 1, 2]


@pytest.mark.parametrize("kind", SINKS)
def test_rows_in_files_of_others_are_theirs_to_a_new_ledger(kind: str, tmp_path: Path) -> None:
    """Nothing tells those that were published once; so it is said in docs/tables.md."""
    spec = spec_into(kind, tmp_path, 0)
    run(spec)
    REWRITE[kind](TableBench(SINKS[kind](path=str(tmp_path / "out"))))
    shutil.rmtree(tmp_path / "out.state")
    run(spec)
    assert sorted(frame_of(TableBench(SINKS[kind](path=str(tmp_path / "out"))))["id"]) == [0, 0]
