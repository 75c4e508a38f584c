"""Every table has exactly the rows of the runs that are published, through any crash."""

import json
from collections.abc import Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema

from tasks.errors import InvalidSpec, SchemaMismatch, StaleTable
from tasks.kinds.tables.delta_output import WRITTEN_FEATURES
from tasks.kinds.tables.iceberg_output import IcebergOutput
from tasks.protocol.table import Table, TableChange, TableState
from tests.kinds.sources.test_tables import delete_by_vector
from tests.tables.bench import Row, TableBench, rows_of
from tests.tables.conftest import OpenBench
from tests.tables.faults import CRASH, LOST_REPLY, Fault, Killed, break_at
from tests.tables.foreigners import APPEND, COMPACT, EMPTY, FOREIGN, ROW, lance
from tests.tables.readers import frame_of, rows_in


def test_a_run_is_one_transaction_and_again_none(bench: TableBench) -> None:
    what = bench.run("k1", {"a": "v1", "b": "v1"})
    before = bench.table.look(bench.ledger.look().id)
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1"})
    bench.put(what)
    assert bench.table.look(bench.ledger.look().id) == before


def test_a_changed_input_replaces_its_own_rows_only(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1", "b": "v1"})
    bench.run("k2", {"b": "v2", "c": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v2", "c": "v1"})


def test_a_new_version_replaces_all_rows_of_ours(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1", "b": "v1"})
    bench.run("k2", {"a": "v1"}, replaces=True)
    assert rows_in(bench) == rows_of({"a": "v1"})


@pytest.mark.parametrize("how", [CRASH, LOST_REPLY])
def test_every_crash_of_publishing_is_mended(open_bench: OpenBench, how: str) -> None:
    bench, inputs = open_bench(), {"a": "v1", "b": "v1"}
    bench.run("k1", inputs)
    for call in range(100):
        before, inputs = rows_of(inputs), {**inputs, "b": f"v{call + 2}"}
        what = bench.prepare(f"k{call + 2}", {"b": inputs["b"]})
        fault = Fault(call, how)
        with suppress(Killed, ConnectionError):
            break_at(bench, fault).put(what)
        assert rows_in(bench) in (before, rows_of(inputs)), f"{how} {fault.names[-1]}"
        bench.put(what)
        assert rows_in(bench) == rows_of(inputs), f"{how} {fault.names[-1]}"
        if not fault.struck:
            break
    assert {"table.commit", "ledger.commit", "storage.move"} <= set(fault.names)


@pytest.mark.parametrize("lost", ["state", "ledger"])
def test_another_ledger_begins_anew(bench: TableBench, open_bench: OpenBench, lost: str) -> None:
    """As where that is lost: versions that are counted anew are not the old ones."""
    bench.run("k1", {"a": "v1"})
    bench.run("k2", {"b": "v1"})
    EMPTY[bench.kind](bench)
    bench.storage.delete_folder(getattr(bench.output, lost))  # type: ignore[attr-defined]
    open_bench().run("k3", {"c": "v1"})
    assert rows_in(bench) == rows_of({"c": "v1"})


def test_two_publishers_of_one_run_make_one_transaction(
    bench: TableBench, open_bench: OpenBench
) -> None:
    """The second has looked at the table before the first commits."""
    bench.run("k1", {"a": "v1"})
    what, late = bench.prepare("k2", {"b": "v1"}), open_bench()
    late.table = Late(late.table, bench.ledger.look().id)
    bench.put(what)
    late.storage.delete(late.output.applied)
    late.put(what)
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1"})
    assert late.table.refused == 1


@dataclass
class Late:
    """Has looked at a table before others changed it, and looks again when it is refused."""

    table: Table
    ledger_id: str
    refused: int = 0

    def __post_init__(self) -> None:
        self.kind, self.place = self.table.kind, self.table.place
        self.stale = self.table.look(self.ledger_id)

    def look(self, ledger_id: str) -> TableState:
        return self.table.look(ledger_id) if self.refused else self.stale

    def commit(self, change: TableChange, seen: TableState) -> None:
        try:
            self.table.commit(change, seen)
        except StaleTable:
            self.refused += 1
            raise

    def way_back(self, files: Set[str]) -> str | None:
        return self.table.way_back(files)


def test_a_foreign_commit_in_between_is_kept(bench: TableBench, open_bench: OpenBench) -> None:
    bench.run("k1", {"a": "v1"})
    what, late = bench.prepare("k2", {"a": "v2"}), open_bench()
    late.table = Late(late.table, bench.ledger.look().id)
    APPEND[bench.kind](bench)
    late.put(what)
    assert rows_in(bench) == rows_of({"a": "v2"}) + FOREIGN
    assert late.table.refused == 1
    bench.run("k3", {"b": "v1"}, replaces=True)
    assert rows_in(bench) == rows_of({"b": "v1"}) + FOREIGN


def test_a_race_of_runs_and_foreign_writers(bench: TableBench, open_bench: OpenBench) -> None:
    bench.run("k0", {"a": "v1"})
    runs = [bench.prepare("k1", {"a": "v2"}), bench.prepare("k2", {"b": "v1"})]
    with ThreadPoolExecutor() as pool:
        # The first run has two publishers, as where somebody takes it for dead.
        ours = [pool.submit(open_bench().put, what) for what in (*runs, runs[0])]
        theirs = [pool.submit(APPEND[bench.kind], bench) for _ in range(2)]
        versions = [each.result() for each in ours]
        assert [each.result() for each in theirs] == [None, None]
    assert versions[0] == versions[2] != versions[1]
    assert rows_in(bench) == rows_of({"a": "v2", "b": "v1"}) + FOREIGN * 2


def test_rows_that_were_moved_are_never_doubled(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    bench.run("k2", {"b": "v1"})
    COMPACT[bench.kind](bench)
    bench.run("k3", {"c": "v1"})  # takes nothing away
    before = bench.ledger.look().version
    with pytest.raises(InvalidSpec, match=r"lost 2 files of this output, .* and has others"):
        bench.run("k4", {"a": "v2"})
    assert bench.ledger.look().version == before
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1", "c": "v1"})
    EMPTY[bench.kind](bench)
    bench.run("k5", {"a": "v2"}, replaces=True)
    assert rows_in(bench) == rows_of({"a": "v2"})


def test_a_reader_of_an_old_version_keeps_its_rows(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1", "b": "v1"})
    old = bench.table.look("").version
    bench.run("k2", {"a": "v2"}, replaces=True)
    assert rows_in(bench, old) == rows_of({"a": "v1", "b": "v1"})


def test_who_reads_meanwhile_sees_one_version_whole(kind: str, open_bench: OpenBench) -> None:
    parts: dict[str, Any] = {} if kind == "lance" else {"partition_by": ["path"]}
    bench, reader, seen, over = open_bench(**parts), open_bench(**parts), list[list[Row]](), Event()
    versions = [{"a": f"v{number}", "b": f"v{number}"} for number in range(5)]

    def read_on() -> None:
        while not over.is_set():
            seen.append(rows_in(reader))

    def await_read() -> None:
        before = len(seen)
        while len(seen) < before + 2 and not reading.done():  # one that began after this
            sleep(0.01)

    bench.run("k0", versions[0])
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_on)
        await_read()
        for number, inputs in enumerate(versions[1:], 1):
            bench.run(f"k{number}", inputs)
        await_read()
        over.set()
        reading.result()
    assert seen[0] == rows_of(versions[0])
    assert seen[-1] == rows_of(versions[-1])
    assert all(rows in map(rows_of, versions) for rows in seen)


def test_vectors_and_numbers_come_as_they_were(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    frame = frame_of(bench).sort("row")
    assert frame["score"].to_list() == [0.0, 0.125, 0.25]
    assert frame["embedding"].to_list() == [[0.0] * 4, [1.0] * 4, [2.0] * 4]
    assert frame["top"].to_list()[0] == [{"label": "a", "score": 0.5}]
    (file,) = bench.ledger.look().files.values()
    own = bench.storage.read(file.target(bench.output))
    vectors = pa.list_(pa.float32(), 4)  # as the run has them, whatever the table has
    kept = bench.sink.select(own, ["embedding"], pa.schema([("embedding", vectors)]))
    assert kept.schema.field("embedding").type == vectors


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_partitions_are_columns(open_bench: OpenBench) -> None:
    bench = open_bench(partition_by=["day", "is_odd"])
    bench.run("k1", {"a": "v1"}, extra={"day": "a/b é", "is_odd": True})
    bench.run("k2", {"b": "v1"}, extra={"day": None, "is_odd": False})
    bench.run("k3", {"a": "v2"}, extra={"day": "x", "is_odd": None})  # of no type
    found = frame_of(bench).select("path", "day", "is_odd").unique().sort("path").rows()
    assert found == [("a", "x", None), ("b", None, False)]
    with pytest.raises(InvalidSpec, match=r"sink.partition_by: \['row'\] is not how the table"):
        open_bench(partition_by=["row"]).sink.check()
    with pytest.raises(InvalidSpec, match="has empty texts"):
        bench.prepare("k4", {"c": "v1"}, extra={"day": "", "is_odd": None})
    with pytest.raises(InvalidSpec, match="cannot partition a table"):
        open_bench(partition_by=["score"]).prepare("k4", {"c": "v1"})


@pytest.mark.parametrize("kind", ["delta"])
def test_texts_stay_what_they_are(open_bench: OpenBench) -> None:
    bench = open_bench(partition_by=["said"])
    bench.run("k1", {"a": "v1"}, extra={"said": "True"})
    assert DeltaTable(bench.sink.path).partitions() == [{"said": "True"}]


def test_numbers_that_stand_for_texts_come_as_texts(bench: TableBench) -> None:
    label = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), ["cat"])[0]
    bench.run("k1", {"a": "v1"}, extra={"label": label})
    bench.run("k2", {"b": "v1"}, extra={"label": label})
    assert frame_of(bench)["label"].to_list() == ["cat"] * 6


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_types_of_no_table_are_refused_before_they_are_published(bench: TableBench) -> None:
    with pytest.raises(SchemaMismatch, match="tables cannot hold columns of these types"):
        bench.prepare("k1", {"a": "v1"}, extra={"took": timedelta(seconds=1)})


@pytest.mark.parametrize("kind", ["delta", "iceberg", "lance"])
def test_lists_that_are_always_empty_are_of_texts(bench: TableBench) -> None:
    """Nobody has said of what else."""
    bench.run("k1", {"a": "v1"}, extra={"tags": []})
    bench.run("k2", {"b": "v1"}, extra={"tags": ["new"]})
    assert sorted(frame_of(bench)["tags"].to_list()) == [[]] * 3 + [["new"]] * 3


@pytest.mark.parametrize("kind", ["delta"])
def test_delta_takes_no_names_that_differ_by_case_only(bench: TableBench) -> None:
    with pytest.raises(SchemaMismatch, match="Duplicate field name"):
        bench.prepare("k1", {"a": "v1"}, extra={"PATH": "x"})


@pytest.mark.parametrize("kind", ["delta"])
def test_an_append_only_table_takes_new_inputs_only(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    DeltaTable(bench.sink.path).alter.set_table_properties({"delta.appendOnly": "true"})
    bench.run("k2", {"b": "v1"})
    with pytest.raises(InvalidSpec, match="append-only table"):
        bench.run("k3", {"a": "v2"})
    bench.run("k4", {"c": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1", "c": "v1"})


@pytest.mark.parametrize("kind", ["delta"])
def test_a_file_of_which_others_have_marked_rows_is_not_replaced(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    delete_by_vector(bench.sink.path, 1)
    bench.run("k2", {"b": "v1"})
    with pytest.raises(InvalidSpec, match=r"has lost 1 file of this output, .* and has others"):
        bench.run("k3", {"a": "v2"})


@pytest.mark.parametrize("kind", ["delta"])
def test_marked_rows_are_seen_by_way_of_a_link_too(
    bench: TableBench, open_bench: OpenBench, tmp_path: Path
) -> None:
    bench.run("k1", {"a": "v1"})
    delete_by_vector(bench.sink.path, 1)
    for name in ("out", "out.state"):
        (tmp_path / name).rename(tmp_path / f"real-{name}")
        (tmp_path / name).symlink_to(f"real-{name}")
    with pytest.raises(InvalidSpec, match=r"has lost 1 file of this output, .* and has others"):
        open_bench().run("k2", {"a": "v2"})


@pytest.mark.parametrize("kind", ["lance"])
@pytest.mark.parametrize("how", ["deleted", "updated", "widened"])
def test_a_fragment_of_which_others_have_changed_rows_is_not_replaced(
    bench: TableBench, how: str
) -> None:
    bench.run("k1", {"a": "v1"})
    if how == "deleted":
        lance(bench).delete("row = 1")
    elif how == "widened":
        lance(bench).add_columns({"theirs": "row + 100"})
    else:
        lance(bench).update({"identity": "'theirs'"}, where="row = 1")
    theirs = frame_of(bench).sort("row").rows()
    bench.run("k2", {"b": "v1"})
    with pytest.raises(InvalidSpec, match=r"has lost 1 file of this output, .* and has others"):
        bench.run("k3", {"a": "v2"})
    assert frame_of(bench).filter(pl.col("path") == "a").sort("row").rows() == theirs


@pytest.mark.parametrize("kind", ["iceberg"])
def test_a_file_of_which_others_have_deleted_by_position_is_not_replaced(
    bench: TableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark and Trino do; pyiceberg writes no such deletes, so that the scan tells of one."""
    from pyiceberg.table import FileScanTask

    bench.run("k1", {"a": "v1"})
    scanned = IcebergOutput.scanned

    def with_deletes(*given: Any) -> dict[str, Any]:
        found = scanned(*given)
        return {path: FileScanTask(task.file, {task.file}) for path, task in found.items()}

    monkeypatch.setattr(IcebergOutput, "scanned", with_deletes)
    with pytest.raises(InvalidSpec, match=r"has lost 1 file of this output, .* and has others"):
        bench.run("k2", {"a": "v2"})


@pytest.mark.parametrize("kind", ["iceberg"])
def test_a_table_of_which_others_have_deleted_by_value_is_refused(
    bench: TableBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Flink does."""
    from pyiceberg.manifest import DataFile, DataFileContent

    bench.run("k1", {"a": "v1"})
    monkeypatch.setattr(DataFile, "content", DataFileContent.EQUALITY_DELETES)
    with pytest.raises(InvalidSpec, match=r"sink\.path: .*deletes that cannot be read.*rewrite"):
        bench.run("k2", {"b": "v1"})


@pytest.mark.parametrize("kind", ["delta"])
def test_a_delta_table_of_mapped_columns_is_refused(bench: TableBench) -> None:
    columns, mapping = Schema.from_arrow(ROW.schema), {"delta.columnMapping.mode": "name"}
    DeltaTable.create(bench.sink.path, columns, configuration=mapping)
    with pytest.raises(InvalidSpec, match="uses other column names"):
        bench.sink.check()


def change_delta(bench: TableBench, change: dict[str, Any]) -> None:
    """Commit what deltalake itself does not."""
    log = Path(
        bench.sink.path, "_delta_log", f"{DeltaTable(bench.sink.path).version() + 1:020}.json"
    )
    log.write_text(json.dumps(change))


def protocol_of(version: int, features: list[str] | None) -> dict[str, Any]:
    """A table's, with the features listed that it has."""
    if features is None:
        return {"minReaderVersion": 1, "minWriterVersion": version}
    read = {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"} & {*features}
    listed = {"writerFeatures": features, **({"readerFeatures": sorted(read)} if read else {})}
    return {"minReaderVersion": 3 if read else 1, "minWriterVersion": version, **listed}


@pytest.mark.parametrize("kind", ["delta"])
@pytest.mark.parametrize(
    ("version", "features", "said"),
    [
        (7, ["appendOnly", "clustering", "domainMetadata"], "uses clustering, domainMetadata of"),
        (7, ["invariants", "madeUpTomorrow"], "uses madeUpTomorrow of Delta"),
        (6, None, "uses identityColumns of Delta"),
        (8, None, "uses writer version 8 of Delta"),
        (7, sorted(WRITTEN_FEATURES), None),
        (5, None, None),
    ],
)
def test_a_delta_table_that_deltalake_writes_nothing_to_is_refused_in_time(
    bench: TableBench, version: int, features: list[str] | None, said: str | None
) -> None:
    bench.run("k1", {"a": "v1"})
    change_delta(bench, {"protocol": protocol_of(version, features)})
    if said is None:
        bench.sink.check()
        bench.run("k2", {"b": "v1"})
        assert len(bench.table.look("").files) == 2  # Polars does not read all such tables
        return
    with pytest.raises(InvalidSpec, match=f"{said}.*remove that from it, or use another path"):
        bench.sink.check()
    with pytest.raises(InvalidSpec, match=said):  # as a run does once more before it is decided
        bench.sink.schema_for(pa.schema([]))


@pytest.mark.parametrize("kind", ["delta"])
def test_a_delta_table_with_rules_for_its_values_is_refused(bench: TableBench) -> None:
    """Deltalake looks at them only where it writes the rows."""
    rule = {"delta.generationExpression": "number + 1"}
    fields = [Field("number", "long"), Field("next", "long", metadata=rule)]
    DeltaTable.create(bench.sink.path, Schema(fields))
    DeltaTable(bench.sink.path).alter.add_constraint({"is_positive": "number > 0"})
    with pytest.raises(
        InvalidSpec, match=r"cannot be enforced here, \['is_positive', 'next'\]: remove"
    ):
        bench.sink.check()


@pytest.mark.parametrize("kind", ["delta"])
@pytest.mark.parametrize("call", ["create_write_transaction", "get_add_actions"])
def test_a_store_that_fails_deltalake_once_is_asked_again(
    bench: TableBench, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    bench.run("k1", {"a": "v1"})
    what, left = bench.prepare("k2", {"b": "v1"}), [OSError("Generic S3 error: 503")]
    whole = getattr(DeltaTable, call)

    def fails_once(*given: Any, **more: Any) -> Any:
        if left:
            raise left.pop()
        return whole(*given, **more)

    monkeypatch.setattr(DeltaTable, call, fails_once)
    bench.put(what)
    assert left == []
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1"})


@pytest.mark.parametrize("kind", ["iceberg"])
def test_who_makes_an_iceberg_table_is_not_alone(
    bench: TableBench, open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another publisher of the same run commits as soon as the table is there."""
    what, create = bench.prepare("k1", {"a": "v1"}), IcebergOutput.create

    def create_and_lose(self: IcebergOutput, change: TableChange) -> str:
        version = create(self, change)
        open_bench().put(what)
        return version

    monkeypatch.setattr(IcebergOutput, "create", create_and_lose)
    bench.put(what)
    assert rows_in(bench) == rows_of({"a": "v1"})


@pytest.mark.parametrize("kind", ["lance"])
def test_lance_versions_may_be_cleaned_away(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    bench.run("k2", {"a": "v2"})
    lance(bench).create_scalar_index("row", "BTREE")
    lance(bench).cleanup_old_versions(older_than=timedelta(0))
    APPEND["lance"](bench)
    bench.run("k3", {"b": "v1"})
    assert rows_in(bench) == rows_of({"a": "v2", "b": "v1"}) + FOREIGN


@pytest.mark.parametrize("kind", ["lance"])
def test_a_compaction_that_moves_an_index_along_keeps_no_run(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    bench.run("k2", {"b": "v1"})
    lance(bench).create_scalar_index("path", "BTREE")
    COMPACT["lance"](bench)
    bench.run("k3", {"c": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v1", "c": "v1"})


@pytest.mark.parametrize("kind", ["lance"])
def test_an_index_of_lance_finds_no_rows_of_what_is_gone(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    bench.run("k2", {"b": "v1"})
    lance(bench).create_scalar_index("path", "BTREE")
    lance(bench).delete("path = 'b'")
    bench.run("k3", {"c": "v1"})
    found = {name: lance(bench).count_rows(f"path = '{name}'") for name in "abc"}
    assert found == {"a": 3, "b": 0, "c": 3}


@pytest.mark.parametrize("kind", ["lance"])
def test_a_lance_dataset_has_no_parts(open_bench: OpenBench) -> None:
    with pytest.raises(InvalidSpec, match="cannot partition a Lance dataset"):
        open_bench(partition_by=["day"]).sink.check()


@pytest.mark.parametrize("kind", ["lance"])
def test_a_lance_dataset_of_another_make_is_refused(bench: TableBench) -> None:
    from lance import write_dataset

    write_dataset(ROW, bench.sink.path, data_storage_version="2.0")
    with pytest.raises(InvalidSpec, match=r"storage version 2\.0, not 2\.2: write it again"):
        bench.sink.check()
    write_dataset(ROW, bench.sink.path, mode="overwrite", data_storage_version="2.2")
    bench.sink.check()
    lance(bench).drop_columns(["identity"])
    with pytest.raises(InvalidSpec, match="is a dataset with dropped columns"):
        bench.sink.check()


def test_columns_are_added_only_when_asked_for(bench: TableBench, open_bench: OpenBench) -> None:
    bench.run("k1", {"a": "v1"})
    with pytest.raises(InvalidSpec, match=r"without the columns \['label'\]: set sink.evolve"):
        bench.prepare("k2", {"b": "v1"}, extra={"label": "x"})
    with pytest.raises(InvalidSpec, match="row is int64 there and string here"):
        bench.prepare("k2", {"b": "v1"}, extra={"row": "x"})
    open_bench(evolve_schema=True).run("k2", {"b": "v1"}, extra={"label": "x"})
    found = frame_of(bench).select("path", "label").unique().sort("path").rows()
    assert found == [("a", None), ("b", "x")]
    bench.run("k3", {"c": "v1"})
    assert len(rows_in(bench)) == 9


@pytest.mark.s3
def test_on_s3(bench_on_s3: TableBench) -> None:
    bench_on_s3.run("k1", {"a": "v1", "b": "v1"})
    bench_on_s3.run("k2", {"b": "v2"})
    assert rows_in(bench_on_s3) == rows_of({"a": "v1", "b": "v2"})
