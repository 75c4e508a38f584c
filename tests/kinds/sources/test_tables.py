"""Tables of all formats: what another library wrote, at the version that was planned."""

import io
import json
import os
import shutil
import struct
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pydantic import ValidationError

from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.places import check_source
from tasks.kinds.sinks import DeltaSink
from tasks.kinds.sources import DeltaSource, IcebergSource, LanceSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.kinds.sources.table import TableSource
from tasks.kinds.sources.table_reading.carried import GONE, moves
from tasks.kinds.sources.table_reading.delta import DeltaVersion
from tasks.protocol.storage import open_storage
from tests.kinds.sources.reading import read_all
from tests.kinds.sources.tables import DeltaLake, IcebergLake, Lake, LanceLake, rows_of
from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import Fault, Request, faulty_s3

FORMATS: list[Callable[[Path], Lake]] = [
    lambda folder: DeltaLake(str(folder / "a lake #1")),
    lambda folder: LanceLake(str(folder / "a lake #1")),
    lambda folder: IcebergLake(f"file://{folder}/lake", str(folder / "catalog.db")),
]


@pytest.fixture(params=FORMATS, ids=["delta", "lance", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Ten rows in two files or four, those of two days each."""
    made: Lake = request.param(tmp_path)
    made.append(*range(6))
    made.append(*range(6, 10))
    return made


def ids(source: TableSource, pins: dict[str, Any] | None = None) -> list[int]:
    return sorted(row["id"] for row in read_all(source, pins))


def pins_of(source: TableSource) -> dict[str, Any]:
    """As a plan keeps them."""
    pins: dict[str, Any] = json.loads(json.dumps(source.pin(*list_inputs(source))))
    return pins


def identities(source: TableSource) -> dict[str, str]:
    return {stat.path: stat.identity for stat in list_inputs(source)[1]}


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def test_rows_are_those_that_the_library_reads(lake: Lake) -> None:
    lake.delete(3, 8)
    source = lake.source()
    source.check()
    check_source(source)
    assert by_id(read_all(source)) == by_id(lake.rows().to_pylist())
    storage, inputs = list_inputs(source)
    assert [storage.stat(each.path) for each in inputs] == list(inputs)
    assert sum(source.count_rows(storage, each) or 0 for each in inputs) == 8


def test_columns_and_rows_are_chosen_at_the_source(lake: Lake) -> None:
    chosen = lake.source(columns=["x", "id"], filter="day == 'odd' and 5 < id and x not in (9, 11)")
    storage, inputs = list_inputs(chosen)
    assert by_id(read_all(chosen)) == [{"x": 7.0, "id": 7}]
    assert {
        source_rows for each in inputs if (source_rows := chosen.count_rows(storage, each))
    } == set()
    # A Lance fragment has no statistics of its own.
    assert len(inputs) == (2 if isinstance(chosen, LanceSource) else 1)
    assert chosen.cut != lake.source().cut


def test_a_plan_reads_its_version_whatever_comes_after(lake: Lake) -> None:
    source = lake.source()
    pins, before = pins_of(source), identities(source)
    lake.append(10, 11)
    lake.delete(0, 1, 2)
    lake.compact()
    assert ids(source) == list(range(3, 12))
    planned = source.as_planned(pins)
    assert identities(planned) == before
    assert ids(planned, pins) == list(range(10))
    field = "snapshot" if isinstance(source, IcebergSource) else "version"
    assert ids(lake.source(**{field: pins["version"]})) == list(range(10))


def test_a_table_as_it_was_at_a_time(lake: Lake) -> None:
    then = datetime.now(UTC)
    lake.append(10)
    assert ids(lake.source(as_of=then)) == list(range(10))
    assert ids(lake.source(as_of=then.replace(tzinfo=None).isoformat())) == list(range(10))
    with pytest.raises(InvalidSpec, match=r"source\.as_of: .*cleaned up"):
        ids(lake.source(as_of="2001-01-01"))


def test_a_table_that_was_copied_since_as_it_was_at_a_time(tmp_path: Path) -> None:
    lake = DeltaLake(str(tmp_path / "lake"))
    lake.append(0)
    lake.append(1)
    then = datetime.now(UTC)
    lake.append(2)
    copied = shutil.copytree(lake.url, tmp_path / "copy", copy_function=shutil.copyfile)
    assert ids(DeltaSource(path=str(copied), as_of=then)) == [0, 1]
    without_old_log(lake)
    with pytest.raises(
        InvalidSpec, match=r"source\.as_of: .*the oldest remaining version is newer"
    ):
        ids(lake.source(as_of=then))


def test_new_files_leave_others_as_they_are_and_a_deletion_shows_in_its_own(lake: Lake) -> None:
    before = identities(lake.source())
    lake.append(10, 12)
    after = identities(lake.source())
    assert before.items() < after.items()
    lake.delete(0)
    assert len(before.items() - identities(lake.source()).items()) == 1


def test_a_version_that_was_cleaned_up_is_said_to_be(lake: Lake) -> None:
    source = lake.source()
    pins = pins_of(source)
    lake.delete(*range(0, 10, 2))
    lake.compact()
    lake.forget()
    assert ids(source) == [1, 3, 5, 7, 9]
    with pytest.raises(InvalidSpec, match=r"source\.\w+: .*cleaned up.*--restart"):
        ids(source.as_planned(pins), pins)


def without_old_log(lake: DeltaLake) -> None:
    """Clean up what the log says of versions before the last checkpoint, as writers do in time."""
    lake.table.create_checkpoint()
    lake.table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    for commit in Path(lake.url, "_delta_log").glob("*.json"):
        os.utime(commit, (0, 0))
    lake.table.cleanup_metadata()


def test_a_log_that_was_cleaned_up_up_to_a_compaction_is_none_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = DeltaLake(str(tmp_path))
    lake.append(0, 2)
    lake.append(4)
    published = list_inputs(lake.source())[1].table
    lake.compact()
    lake.append(6)
    without_old_log(lake)
    storage, inputs = list_inputs(lake.source())
    commit, asked = DeltaVersion.commit, list[int]()

    def asked_for(self: DeltaVersion, version: int) -> list[dict[str, Any]]:
        asked.append(version)
        return commit(self, version)

    monkeypatch.setattr(DeltaVersion, "commit", asked_for)
    left = lake.source().left(storage, inputs, published)
    assert [stat.identity == GONE for stat in left] == [False, False, True, True]
    there = {int(commit.stem) for commit in Path(lake.url, "_delta_log").glob("0*.json")}
    assert set(asked) == there - {0} != set(range(1, lake.table.version() + 1)), "what is left"
    with pytest.raises(InvalidSpec, match=r"source\.version: 1 is not a version of .*cleaned up"):
        list_inputs(lake.source(version=1, on_empty="succeed"))


def test_a_compaction_is_told_by_its_commit_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open a version takes as long as it has files, and each run looks at all commits."""
    from deltalake import write_deltalake

    for number in range(3):
        rows = pa.table({"id": [number, number], "day": ["a b", "50 %/é"]})
        write_deltalake(str(tmp_path), rows, mode="append", partition_by=["day"])
    source = DeltaSource(path=str(tmp_path))
    published = list_inputs(source)[1].table
    DeltaLake(str(tmp_path)).compact()
    storage, inputs = list_inputs(source)
    whole = storage.filesystem.version
    (told,) = moves(whole.rewrites())
    (seen,) = moves([(whole.at(whole.pins["version"] - 1), whole)])
    assert told == seen
    assert [len(files) for files in told] == [6, 2]
    monkeypatch.setattr(DeltaVersion, "at", lambda self, version: pytest.fail("it was opened"))
    assert not len(source.left(storage, inputs, published))


@pytest.mark.s3
def test_a_table_in_a_bucket_that_is_open_to_all(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = DeltaLake(s3.url(uuid.uuid4().hex), dict(s3.storage_options))
    lake.append(1)
    store = open_storage(lake.url, s3.storage_options)[0].filesystem
    bucket = lake.url.removeprefix("s3://").partition("/")[0]
    store.chmod(bucket, "public-read")
    store.chmod(lake.url, "public-read", recursive=True)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    options = {k: v for k, v in s3.storage_options.items() if k not in ("key", "secret")}
    assert ids(DeltaSource(path=lake.url, storage_options={**options, "anon": True})) == [1]


@pytest.mark.s3
def test_a_store_that_fails_has_cleaned_no_version_up(s3: S3) -> None:
    lake = DeltaLake(s3.url(uuid.uuid4().hex), dict(s3.storage_options))
    lake.append(1)
    lake.table.create_checkpoint()

    def keep_checkpoints(request: Request) -> Fault | None:
        return Fault(403, "AccessDenied") if "checkpoint.parquet" in request.path else None

    with faulty_s3(s3.endpoint_url) as proxy:
        proxy.behave, lake.options = keep_checkpoints, {"endpoint_url": proxy.endpoint_url}
        with pytest.raises(ConnectionError, match="lacked the necessary privileges"):
            lake.source(version=0).open()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"columns": ["id", "nope"]}, r"source\.columns: \['nope'\] is not among .*id, x, day"),
        ({"columns": ["id", "dya"]}, r"source\.columns: \['dya'\] is .*; did you mean day\?$"),
        ({"filter": "nope > 1"}, r"source\.filter: .*uses \['nope'\], not among"),
        ({"filter": "day > 1"}, r"source\.filter: 'day > 1' does not fit"),
        ({"filter": "day >"}, r"source\.filter: 'day >' does not parse"),
        ({"filter": "10 / id > 5"}, r"source\.filter: '10 / id > 5' .*calculate in a filter step"),
        ({"filter": "id > -1 and -id < 2"}, r"source\.filter: .*calculate in a filter step"),
        (
            {"version": 77},
            r"source\.(version|snapshot): 77 is not a version of .* or was cleaned up",
        ),
    ],
)
def test_what_does_not_fit_is_said_before_a_run(
    lake: Lake, fields: dict[str, Any], problem: str
) -> None:
    if "version" in fields and isinstance(lake, IcebergLake):
        fields = {"snapshot": fields["version"]}
    with pytest.raises(InvalidSpec, match=problem):
        pins_of(lake.source(**fields))


def test_what_lance_cannot_filter_by_is_said_before_a_run(tmp_path: Path) -> None:
    lake = LanceLake(str(tmp_path / "numbers"))
    lake.append(1)
    with pytest.raises(InvalidSpec, match="not a filter that Lance can use"):
        list_inputs(lake.source(filter="vector is not None"))


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.large_list(pa.int64()), pa.duration("s")])
def test_a_column_that_keeps_lance_from_filtering_by_others_is_said_before_a_run(
    kind: pa.DataType, tmp_path: Path
) -> None:
    import lance

    rows = pa.table({"id": [1], "other": pa.nulls(1, kind)})
    lance.write_dataset(rows, str(tmp_path), data_storage_version="2.2")
    with pytest.raises(
        InvalidSpec, match=r"source\.filter: .*not a filter that Lance.*filter step"
    ):
        list_inputs(LanceSource(path=str(tmp_path), filter="id == 1"))


@pytest.mark.parametrize("column", ["list", "map"])
def test_what_iceberg_cannot_filter_by_is_said_before_a_run(column: str, tmp_path: Path) -> None:
    lake = IcebergLake(f"file://{tmp_path}", str(tmp_path / "catalog.db"))
    lake.append(1)
    with lake.table.update_schema() as update:
        update.union_by_name(
            pa.schema([("list", pa.list_(pa.int64())), ("map", pa.map_(pa.string(), pa.int64()))])
        )
    with pytest.raises(InvalidSpec, match=rf"source\.filter: .*uses \['{column}'\].*filter step"):
        list_inputs(lake.source(filter=f"{column} is None"))
    with pytest.raises(InvalidSpec, match=r"source\.filter: .*DoubleLiteral.*with a filter step"):
        list_inputs(lake.source(filter="id > 0.5"))


def test_missing_lists_and_maps_of_objects_stay_missing(tmp_path: Path) -> None:
    """Pyiceberg makes empty ones of them."""
    lake = IcebergLake(f"file://{tmp_path}", str(tmp_path / "catalog.db"))
    one = pa.struct([("a", pa.int64())])
    kinds = {
        "list": pa.list_(one),
        "map": pa.map_(pa.string(), one),
        "deep": pa.list_(pa.list_(one)),
    }
    values: list[dict[str, Any]] = [
        {"list": [{"a": 1}, {"a": 2}], "map": [("k", {"a": 1})], "deep": [None, [{"a": 1}]]},
        {"list": None, "map": None, "deep": None},
        {"list": [], "map": [], "deep": [[], None]},
        {"list": [{"a": 3}], "map": [("l", {"a": 2})], "deep": [[{"a": 2}, None]]},
        {"list": None, "map": None, "deep": [None]},
    ]
    rows = [{"id": at, **each, "within": each} for at, each in enumerate(values)]
    schema = pa.schema(
        [("id", pa.int64()), *kinds.items(), ("within", pa.struct([*kinds.items()]))]
    )
    with lake.table.update_schema() as update:
        update.union_by_name(schema)
    # Its own files have empty ones, too.
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "others.parquet")
    lake.table.add_files([str(tmp_path / "others.parquet")])
    assert read_all(lake.source(columns=schema.names)) == rows
    assert read_all(lake.source(columns=schema.names, filter="id >= 3")) == rows[3:]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs_of_lance_come_as_bytes(version: str, tmp_path: Path) -> None:
    import lance

    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    kinds = pa.schema([("id", pa.int64()), blob, ("within", pa.struct([blob]))])
    values = [b"first", None, b"", bytes(100_000)]
    rows = [{"id": at, "blob": each, "within": {"blob": each}} for at, each in enumerate(values)]
    table = pa.Table.from_pylist(rows, kinds)
    lance.write_dataset(table, str(tmp_path), data_storage_version=version)
    assert read_all(LanceSource(path=str(tmp_path))) == rows
    chosen = LanceSource(path=str(tmp_path), columns=["blob"], filter="id == 3")
    assert read_all(chosen) == [{"blob": values[3]}]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_of_large_blobs_only_a_few_are_in_memory(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lance

    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = [bytes([at]) * 1_000 for at in range(40)]
    table = pa.table([values], pa.schema([blob]))
    lance.write_dataset(table, str(tmp_path), data_storage_version=version)
    monkeypatch.setattr("tasks.kinds.sources.table_reading.lance.BYTES_PER_READ", 10_000)
    found = LanceSource(path=str(tmp_path)).open()
    (file,) = found.files()
    batches = list(found.read(file.path, ["blob"]))
    assert max(map(len, batches)) <= 10
    assert [value for batch in batches for value in batch["blob"].to_pylist()] == values


def test_a_name_without_a_namespace_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"source.path: 'orders' is not a table's name"):
        check_source(IcebergSource(path="orders", catalog={"type": "sql", "uri": "sqlite://"}))
    here = {"type": "sql", "uri": "sqlite:///catalog.db"}
    with pytest.raises(InvalidSpec, match=r"^source\.catalog\.uri: .*with four slashes"):
        check_source(IcebergSource(path="sales.orders", catalog=here))


BEYOND_US = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["ofTomorrow"]}


@pytest.mark.parametrize(
    "entry",
    ['{"add": {"pa', json.dumps({"protocol": {**BEYOND_US, "writerFeatures": ["ofTomorrow"]}})],
    ids=["cut off", "a feature that nobody knows"],
)
def test_a_log_of_delta_that_cannot_be_read_is_not_asked_again(entry: str, tmp_path: Path) -> None:
    """Else it would be taken for a storage that does not answer, and waited for."""
    write_deltalake(str(tmp_path), pa.table({"id": [1]}))
    (tmp_path / "_delta_log/00000000000000000001.json").write_text(f"{entry}\n")
    for look in (
        lambda: list_inputs(DeltaSource(path=str(tmp_path))),
        lambda: DeltaSink(path=str(tmp_path)).check(),
    ):
        with pytest.raises(InvalidSpec, match=rf"Delta table at .*{tmp_path.name} cannot be read"):
            look()


def test_partitions_of_bytes_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"k": [b"a/\xff"], "x": [1]})
    write_deltalake(str(tmp_path), rows, partition_by=["k"])
    with pytest.raises(InvalidSpec, match=r"is partitioned by the bytes of \['k'\]"):
        list_inputs(DeltaSource(path=str(tmp_path)))


def test_a_version_and_a_time_are_one_too_many(lake: Lake) -> None:
    field = "snapshot" if isinstance(lake, IcebergLake) else "version"
    with pytest.raises(ValidationError, match="or as_of"):
        lake.source(**{field: 1, "as_of": "2026-01-01"})
    with pytest.raises(ValidationError, match="with filter"):
        lake.source(exclude=["*"])


@pytest.mark.parametrize("kind", [DeltaSource, LanceSource])
def test_no_table_there(kind: type[TableSource], tmp_path: Path) -> None:
    with pytest.raises(InputNotFound, match="has no table with rows"):
        check_source(kind(path=str(tmp_path)))


@pytest.mark.parametrize("kind", [DeltaSource, LanceSource])
def test_where_no_table_is_nothing_leaves_the_output(
    kind: type[TableSource], tmp_path: Path
) -> None:
    source = kind(path=str(tmp_path / "later"), on_empty="succeed")
    storage, inputs = list_inputs(source)
    assert len(inputs) == 0
    published = pa.table({"path": ["a"], "identity": ["v1"]})
    assert len(source.left(storage, inputs, published)) == 0
    assert source.pin(storage, []) == {}


def test_no_iceberg_table_there(tmp_path: Path) -> None:
    lake = IcebergLake(f"file://{tmp_path}", str(tmp_path / "catalog.db"))
    assert not list_inputs(lake.source(on_empty="succeed"))[1]
    with pytest.raises(InputNotFound, match="has no table with rows"):
        list_inputs(lake.source())
    for name in ("lake.others", "sea.numbers"):
        with pytest.raises(InputNotFound, match="has no table with rows"):
            check_source(IcebergSource(path=name, catalog=lake.catalog))
    with pytest.raises(InvalidSpec, match=r"source\.catalog: .*NO_SUCH_VARIABLE"):
        check_source(IcebergSource(path="a.b", catalog={"uri": "${NO_SUCH_VARIABLE}"}))
    with pytest.raises(InvalidSpec, match="cannot compute"):
        lake.source(filter="date('2026-01-31') > date('2026-01-30') and id > 2").check()
    lake.append(1)
    with pytest.raises(InvalidSpec, match="cannot be compared"):
        list_inputs(lake.source(filter="id > 0.5"))


@pytest.mark.parametrize("on_empty", ["fail", "succeed"])
def test_a_pinned_metadata_file_that_was_cleaned_up_is_no_empty_table(
    on_empty: str, tmp_path: Path
) -> None:
    """Else the run that goes on would find nothing to do, night after night."""
    lake = IcebergLake(str(tmp_path), str(tmp_path / "catalog.db"))
    lake.append(0, 1)
    source = lake.source(on_empty=on_empty)
    planned = source.as_planned(pins_of(source))
    lake.append(2)
    Path(planned.path.removeprefix("file://")).unlink()
    with pytest.raises(InvalidSpec, match=r"source\.path: .*cleaned up.*--restart"):
        list_inputs(planned)
    assert ids(source) == [0, 1, 2]


@pytest.mark.parametrize("catalog_plans", [False, True])
def test_rows_deleted_by_value_are_refused(
    catalog_plans: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pyiceberg says so in its own words, and in others where the catalog plans the scan."""
    from pyiceberg.manifest import DataFile, DataFileContent
    from pyiceberg.table import DataScan

    def planned_elsewhere(scan: DataScan) -> None:
        raise NotImplementedError("PyIceberg does not yet support equality deletes: a.parquet")

    lake = IcebergLake(f"file://{tmp_path}", str(tmp_path / "catalog.db"))
    lake.append(1)
    if catalog_plans:
        monkeypatch.setattr(DataScan, "plan_files", planned_elsewhere)
    else:
        monkeypatch.setattr(DataFile, "content", DataFileContent.EQUALITY_DELETES)
    with pytest.raises(InvalidSpec, match=r"source\.path: .*deletes that cannot be read.*rewrite"):
        list_inputs(lake.source())


def test_a_branch_and_a_tag_of_iceberg(tmp_path: Path) -> None:
    lake = IcebergLake(f"file://{tmp_path}", str(tmp_path / "catalog.db"))
    lake.append(1, 2)
    lake.table.manage_snapshots().create_tag(
        lake.table.current_snapshot().snapshot_id, "v1"
    ).commit()
    lake.append(3)
    assert ids(lake.source(snapshot="v1")) == [1, 2]
    assert ids(lake.source(filter="id is not None and not id == 2 and id >= 1")) == [1, 3]
    assert ids(IcebergSource(path=lake.table.metadata_location)) == [1, 2, 3]
    planned = lake.source().as_planned(pins_of(lake.source()))
    Path(lake.catalog_file).unlink()  # a worker has none
    check_source(planned)
    assert ids(planned) == [1, 2, 3]


def test_columns_of_iceberg_are_those_of_now_or_of_the_snapshot_that_is_named(
    tmp_path: Path,
) -> None:
    lake = IcebergLake(f"file://{tmp_path}", str(tmp_path / "catalog.db"))
    lake.append(1)
    then = lake.table.current_snapshot().snapshot_id
    with lake.table.update_schema() as update:
        update.rename_column("x", "y")
    with lake.table.update_schema() as update:  # another one of the former name
        update.add_column("x", update._schema.find_type("id"))
    for fields, row in (
        ({"filter": "y == 1.0 and x is None"}, {"y": 1.0, "x": None}),
        ({"filter": "x == 1.0", "snapshot": then}, {"x": 1.0}),
        ({"filter": "x == 1.0", "as_of": datetime.now(UTC)}, {"x": 1.0}),
    ):
        source = lake.source(columns=list(row), **fields)
        pins = pins_of(source)
        assert read_all(source, pins) == [row]
        assert read_all(source.as_planned(pins), pins) == [row]


def test_a_tag_of_lance(tmp_path: Path) -> None:
    lake = LanceLake(str(tmp_path / "lake"))
    lake.append(1, 2)
    lake.table.tags.create("v1", 1)
    lake.append(3)
    source = lake.source(tag="v1")
    assert ids(source) == [1, 2]
    assert ids(source.as_planned(pins_of(source))) == [1, 2]
    with pytest.raises(InvalidSpec, match=r"source\.tag: 'v2' is not a version of"):
        ids(lake.source(tag="v2"))


def test_of_a_restored_version_of_lance_other_rows_are_deleted(tmp_path: Path) -> None:
    lake = LanceLake(str(tmp_path / "lake"))
    lake.append(1, 2, 3)
    lake.append(4)
    lake.delete(1)
    before = identities(lake.source())
    lake.append(5)
    assert before.items() <= identities(lake.source()).items()
    lake.source(version=2).open().dataset.restore()
    lake.delete(2)
    assert ids(lake.source()) == [1, 3, 4]
    assert [before[path] == now for path, now in identities(lake.source()).items()] == [False, True]


def test_a_compaction_of_lance_that_moves_an_index_along_is_one(tmp_path: Path) -> None:
    lake = LanceLake(str(tmp_path / "lake"))
    lake.append(1, 2)
    lake.append(3)
    lake.table.create_scalar_index("id", "BTREE")
    lake.compact()
    [(before, after)] = lake.source().open().rewrites()
    assert (len(before.files()), len(after.files())) == (2, 1)


def test_a_damaged_file_gives_bad_rows_and_no_other(tmp_path: Path) -> None:
    lake = DeltaLake(str(tmp_path / "lake"))
    lake.append(0, 2, 4)
    lake.append(1, 3)
    broken = next(Path(lake.url, "day=odd").glob("*.parquet"))
    broken.write_bytes(broken.read_bytes()[:-8] + b"12345678")
    rows = read_all(lake.source())
    assert len([row for row in rows if isinstance(row, BadRow)]) == 2
    assert sorted(row["id"] for row in rows if isinstance(row, dict)) == [0, 2, 4]


def test_days_and_times_are_compared(tmp_path: Path) -> None:
    import lance
    from deltalake import write_deltalake

    days = [date(2026, 1, day) for day in range(1, 6)]
    times = [datetime(2026, 1, day, 12, tzinfo=UTC) for day in range(1, 6)]
    rows = pa.table({"id": range(5), "day": days, "at": pa.array(times, pa.timestamp("us", "UTC"))})
    write_deltalake(str(tmp_path / "delta"), rows, partition_by=["day"])
    lance.write_dataset(rows, str(tmp_path / "lance"))
    iceberg = IcebergLake(f"file://{tmp_path}/iceberg", str(tmp_path / "catalog.db"))
    iceberg.table.catalog.create_table("lake.days", rows.schema).append(rows)
    chosen = "day > date('2026-01-02') and at < timestamp('2026-01-04T14:00:00+02:00')"
    sources: list[TableSource] = [
        DeltaSource(path=str(tmp_path / "delta"), filter=chosen),
        LanceSource(path=str(tmp_path / "lance"), filter=chosen),
        IcebergSource(path="lake.days", catalog=iceberg.catalog, filter=chosen),
    ]
    assert [ids(source) for source in sources] == [[2]] * 3
    assert len(list_inputs(sources[0])[1]) == 1
    with pytest.raises(InvalidSpec, match=r"source\.filter: .*date\('2026-01-31'\)"):
        DeltaSource(path="x", filter="day > date(2026)").check()
    naive = DeltaSource(path=str(tmp_path / "delta"), filter="at < timestamp('2026-01-04T14:00')")
    with pytest.raises(InvalidSpec, match=r"source\.filter: .* does not fit the table: .*timezone"):
        list_inputs(naive)


@pytest.mark.parametrize("deleted", [(), (1,)])
def test_what_a_filter_cannot_compute_sets_no_file_aside(
    deleted: tuple[int, ...], tmp_path: Path
) -> None:
    url = str(tmp_path / "lake")
    write_deltalake(url, pa.table({"id": range(3), "code": [b"7", b"8", b"nine"]}))
    if deleted:
        delete_by_vector(url, *deleted)
    with pytest.raises(InvalidSpec, match=r"source\.filter: .* cannot be computed from .*'nine'"):
        read_all(DeltaSource(path=url, filter="code in (7, 8)"))


def test_empty_values_are_out_of_no_list(tmp_path: Path) -> None:
    import lance

    rows = pa.table({"id": range(4), "name": ["a", "b", None, "d"]})
    write_deltalake(str(tmp_path / "delta"), rows)
    lance.write_dataset(rows, str(tmp_path / "lance"))
    iceberg = IcebergLake(f"file://{tmp_path}/iceberg", str(tmp_path / "catalog.db"))
    iceberg.table.catalog.create_table("lake.names", rows.schema).append(rows)
    for chosen in ("name not in ('a', 'b')", "not name in ('a', 'b')"):
        sources: list[TableSource] = [
            DeltaSource(path=str(tmp_path / "delta"), filter=chosen),
            LanceSource(path=str(tmp_path / "lance"), filter=chosen),
            IcebergSource(path="lake.names", catalog=iceberg.catalog, filter=chosen),
        ]
        assert [ids(source) for source in sources] == [[3]] * 3


def test_whole_numbers_are_compared_with_fractions(tmp_path: Path) -> None:
    import lance

    rows = pa.table({"id": [0, 1, 20_000_001]})
    write_deltalake(str(tmp_path / "delta"), rows)
    lance.write_dataset(rows, str(tmp_path / "lance"))
    for kind in (DeltaSource, LanceSource):
        chosen = kind(path=str(tmp_path / kind.model_fields["kind"].default), filter="id > 0.5")
        assert ids(chosen) == [1, 20_000_001]


def test_bounds_of_a_file_that_was_written_anew_set_no_row_aside(tmp_path: Path) -> None:
    """Its texts are of another type of Arrow's, which it does not compare with the table's."""
    write_deltalake(tmp_path, pa.table({"id": range(4), "name": ["a", "b", None, "a"]}))
    DeltaTable(tmp_path).delete("name = 'b'")
    [path] = DeltaTable(tmp_path).file_uris()
    assert pq.read_schema(path).field("name").type == pa.string_view()
    chosen = {"name == 'a'": [0, 3], "name in ('a', 'c')": [0, 3]}
    found = {each: ids(DeltaSource(path=str(tmp_path), filter=each)) for each in chosen}
    assert found == chosen


def test_bounds_tell_nothing_of_nan_nor_of_the_sign_of_zero(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [0, 1, 2], "x": [0.0, float("nan"), None]}))
    write_deltalake(tmp_path, pa.table({"id": [3, 4], "x": [0.0, -0.0]}), mode="append")
    chosen = {"x in (0, 1)": [0, 3, 4], "x not in (0, 1)": [1], "x != 0": [1], "not x <= 1": [1]}
    found = {each: ids(DeltaSource(path=str(tmp_path), filter=each)) for each in chosen}
    assert found == chosen


def test_fractions_are_compared_as_a_column_of_32_bits_holds_them(tmp_path: Path) -> None:
    import lance

    rows = pa.table({"id": [1, 2], "x": pa.array([0.1, 0.2], pa.float32())})
    write_deltalake(tmp_path / "delta", rows)
    lance.write_dataset(rows, str(tmp_path / "lance"))
    iceberg = IcebergLake(f"file://{tmp_path}/iceberg", str(tmp_path / "catalog.db"))
    iceberg.table.catalog.create_table("lake.short", rows.schema).append(rows)
    chosen = {"x == 0.1": [1], "x <= 0.1": [1], "x in (0.1, 0.3)": [1], "0.1 < x": [2]}
    for each, wanted in chosen.items():
        sources: list[TableSource] = [
            DeltaSource(path=str(tmp_path / "delta"), filter=each),
            LanceSource(path=str(tmp_path / "lance"), filter=each),
            IcebergSource(path="lake.short", catalog=iceberg.catalog, filter=each),
        ]
        assert [ids(source) for source in sources] == [wanted] * 3


def test_columns_that_came_later(tmp_path: Path) -> None:
    url = str(tmp_path / "lake")
    write_deltalake(url, pa.table({"id": pa.array([1], pa.int32())}))
    later = pa.table({"id": pa.array([2], pa.int32()), "note": ["new"]})
    write_deltalake(url, later, mode="append", schema_mode="merge")
    rows = by_id(read_all(DeltaSource(path=url)))
    assert rows == [{"id": 1, "note": None}, {"id": 2, "note": "new"}]


def test_of_files_from_before_a_column_each_row_is_without_a_value(tmp_path: Path) -> None:
    first, later = pa.table({"id": [1]}), pa.table({"id": [2, 3], "n": [None, 7]})
    write_deltalake(str(tmp_path / "delta"), first)
    write_deltalake(str(tmp_path / "delta"), later, mode="append", schema_mode="merge")
    lake = IcebergLake(f"file://{tmp_path}/iceberg", str(tmp_path / "catalog.db"))
    table = lake.table.catalog.create_table("lake.later", first.schema)
    table.append(first)
    with table.update_schema() as update:
        update.union_by_name(later.schema)
    table.append(later)
    chosen = {"n != 8": [3], "not n == 8": [3], "not 8 < n": [3], "not n != 7": [3], "n != 7": []}
    chosen |= {"n is None": [1, 2], "not n is not None": [1, 2], "n not in (8, 9)": [3]}
    for kind, at in ((DeltaSource, str(tmp_path / "delta")), (IcebergSource, "lake.later")):
        given = {"catalog": lake.catalog} if kind is IcebergSource else {}
        empty = {"on_empty": "succeed"}
        found = {each: ids(kind(path=at, filter=each, **given, **empty)) for each in chosen}
        assert found == chosen


def forget_bounds(url: str, name: str) -> None:
    """Leave a column's smallest and largest value out of the log, as Spark does of some."""
    for log in Path(url, "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                told = json.loads(line["add"]["stats"])
                for bounds in ("minValues", "maxValues"):
                    told[bounds].pop(name, None)
                line["add"]["stats"] = json.dumps(told)
        log.write_text("\n".join(map(json.dumps, lines)))


def test_a_file_is_not_ruled_out_by_what_the_log_does_not_tell(tmp_path: Path) -> None:
    url = str(tmp_path)
    write_deltalake(url, pa.table({"id": [1]}))
    later = pa.table({"id": [2, 3], "yes": [None, True]})
    write_deltalake(url, later, mode="append", schema_mode="merge")
    forget_bounds(url, "yes")
    chosen = {"yes is None": [1, 2], "yes": [3], "id == 2 or yes": [2, 3]}
    assert {each: ids(DeltaSource(path=url, filter=each)) for each in chosen} == chosen


def test_a_file_is_ruled_out_by_what_the_log_tells(tmp_path: Path) -> None:
    at = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, 12, 0, 0, 123_456, UTC)]
    times, none = pa.array(at, pa.timestamp("us", "UTC")), pa.nulls(2, pa.string())
    write_deltalake(str(tmp_path), pa.table({"id": [1, 2], "at": times, "no": none}))
    first = "at >= timestamp('2026-01-02T12:00:00.123456+00:00')"  # the log has no microseconds
    num_files = {first: 1, "id > 2": 0, "id < 1": 0, "id is None": 0, "no is not None": 0}
    sources = {each: DeltaSource(path=str(tmp_path), filter=each) for each in num_files}
    assert {each: len(source.open().files()) for each, source in sources.items()} == num_files
    assert ids(sources[first]) == [2]


def test_days_that_python_does_not_know(tmp_path: Path) -> None:
    day = pa.array([10_000_000], pa.int32()).cast(pa.date32())
    for name, parts in (("in files", []), ("folders", ["day"])):
        write_deltalake(tmp_path / name, pa.table({"id": [1], "day": day}), partition_by=parts)
        assert ids(DeltaSource(path=str(tmp_path / name), columns=["id"])) == [1]


Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    """Bytes as Delta's log has them."""
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def delete_by_vector(url: str, *rows: int, gone: bool = False) -> None:
    """Mark rows of the table's only file as deleted, as Spark does and delta-rs cannot.

    Where the vector is gone, it was in a file that somebody has cleaned up.
    """
    from pyroaring import BitMap

    log = Path(url, "_delta_log")
    commits = [file.read_text().splitlines() for file in log.glob("*.json")]
    lines = [json.loads(line) for commit in commits for line in commit]
    (add,) = [line["add"] for line in lines if "add" in line]
    vector = struct.pack("<IQI", 1681511377, 1, 0) + BitMap(rows).serialize()
    vector += bytes(-len(vector) % 4)
    inline = {"storageType": "i", "pathOrInlineDv": z85(vector)}
    nowhere = {"storageType": "p", "pathOrInlineDv": f"file://{url}/gone.bin", "offset": 1}
    told = {**(nowhere if gone else inline), "sizeInBytes": len(vector), "cardinality": len(rows)}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    change = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}},
        {"add": {**add, "deletionVector": told}},
    ]
    number = len(list(log.glob("*.json")))
    (log / f"{number:020d}.json").write_text("\n".join(map(json.dumps, change)))


def test_a_compaction_of_rows_whose_vector_was_cleaned_up_is_none_of_any(tmp_path: Path) -> None:
    """Else no later run could be planned, for as long as the log goes back."""
    from deltalake import DeltaTable, write_deltalake

    url = str(tmp_path / "lake")
    write_deltalake(url, rows_of(range(4)))
    source = DeltaSource(path=url, columns=["id"])
    published = list_inputs(source)[1].table
    delete_by_vector(url, 2, gone=True)
    with pytest.raises(FileNotFoundError):
        list_inputs(source)[1]
    log = Path(url, "_delta_log")
    (last,) = [json.loads(line) for line in (log / f"{1:020d}.json").read_text().splitlines()][2:]
    pq.write_table(rows_of([0, 1, 3]), Path(url, "moved.parquet"))
    size = Path(url, "moved.parquet").stat().st_size
    same = {name: last["add"][name] for name in ("partitionValues", "modificationTime")}
    moved = {**same, "path": "moved.parquet", "size": size, "dataChange": False}
    vector = {"path": last["add"]["path"], "deletionVector": last["add"]["deletionVector"]}
    away = {"remove": {**vector, "dataChange": False, "deletionTimestamp": 1}}
    commit = [away, {"add": moved}]
    (log / f"{2:020d}.json").write_text("\n".join(map(json.dumps, commit)))
    assert DeltaTable(url).version() == 2
    storage, inputs = list_inputs(source)
    left = source.left(storage, inputs, published)
    assert [stat.identity == GONE for stat in left] == [False, True]
    assert ids(source) == [0, 1, 3]


def test_a_filter_on_a_column_that_is_younger_than_a_compaction(tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    url = str(tmp_path / "lake")
    for number in range(2):
        write_deltalake(url, pa.table({"id": [number]}), mode="append")
    published = list_inputs(DeltaSource(path=url))[1].table
    DeltaTable(url).optimize.compact()
    later = pa.table({"id": [2], "n": [2]})
    write_deltalake(url, later, mode="append", schema_mode="merge")
    source = DeltaSource(path=url, filter="n > 1")
    storage, inputs = list_inputs(source)
    left = source.left(storage, inputs, published)
    assert [stat.identity == GONE for stat in left].count(True) == 2
    assert len(left) > 2


def test_rows_that_a_vector_marks_as_deleted_are_not_read(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    url = str(tmp_path / "lake")
    write_deltalake(url, rows_of(range(5_000)))
    source = DeltaSource(path=url, columns=["id", "day"])
    before = identities(source)
    delete_by_vector(url, 2, 2_500)
    left = [each for each in range(5_000) if each not in (2, 2_500)]
    assert ids(source) == left
    assert ids(DeltaSource(path=url, filter="x > 2498", columns=["id"])) == left[2_498:]
    assert ids(DeltaSource(path=url, version=0)) == list(range(5_000))
    assert identities(source).keys() == before.keys()
    assert identities(source) != before
    storage, (stat,) = list_inputs(source)
    assert source.count_rows(storage, stat) == 4_998


def test_a_bit_that_has_changed_in_a_file_with_checksums_is_told(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"x": range(1_000)}))
    (file,) = tmp_path.glob("*.parquet")
    rows, written = pq.read_table(file), io.BytesIO()
    pq.write_table(rows, written, compression="none", write_page_checksum=True)
    source, content = DeltaSource(path=str(tmp_path)), bytearray(written.getvalue())
    file.write_bytes(content)
    assert read_all(source) == rows.to_pylist()
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert {str(each.error).partition(", set ")[2] for each in read_all(source)} == {
        "source.verify_checksums: false"
    }
    assert len(read_all(DeltaSource(path=str(tmp_path), verify_checksums=False))) == len(rows)


def test_of_a_file_with_deleted_rows_only_the_columns_that_are_asked_for_are_read(
    tmp_path: Path,
) -> None:
    wide = [bytes([each]) * 10_000 for each in range(200)]
    rows = pa.table({"id": range(200), "x": range(200), "wide": wide})
    write_deltalake(str(tmp_path), rows)
    delete_by_vector(str(tmp_path), 2)
    (file,) = tmp_path.glob("*.parquet")
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(2)
    content = bytearray(file.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    file.write_bytes(content)  # what is read of it would be damage
    source = DeltaSource(path=str(tmp_path), columns=["id"], filter="x < 4")
    assert read_all(source) == [{"id": 0}, {"id": 1}, {"id": 3}]


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder by whose name a table is reached that lies elsewhere, a row marked as deleted."""
    real, link = tmp_path / "disk 2" / "lake", tmp_path / "lake"
    write_deltalake(real, rows_of(range(5)))
    delete_by_vector(str(real), 2)
    link.symlink_to(real)
    return link


@pytest.mark.parametrize("name", ["{0}", "file://{0}", "{0.parent}/disk 2/../lake"])
def test_vectors_count_by_whatever_name_a_table_is_reached(linked: Path, name: str) -> None:
    source = DeltaSource(path=name.format(linked), columns=["id"])
    assert ids(source) == [0, 1, 3, 4]
    storage, (stat,) = list_inputs(source)
    assert source.count_rows(storage, stat) == 4


def test_a_vector_of_no_file_that_is_listed_is_said(
    linked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "realpath", str)
    with pytest.raises(InvalidSpec, match=r"deleted in 1 file, of which it lists 0: use"):
        ids(DeltaSource(path=str(linked)))


def test_a_table_whose_columns_have_other_names_in_its_files_is_refused(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable.create(str(tmp_path), pa.schema([("id", pa.int64())]))
    log = Path(tmp_path, "_delta_log", f"{0:020d}.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            mapping = {"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1}
            schema["fields"][0]["metadata"] = mapping
            line["metaData"]["schemaString"] = json.dumps(schema)
            line["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InvalidSpec, match="uses columnMapping"):
        check_source(DeltaSource(path=str(tmp_path)))


@pytest.mark.s3
@pytest.mark.parametrize("kind", [DeltaLake, LanceLake])
def test_on_s3(s3: S3, kind: type[DeltaLake] | type[LanceLake]) -> None:
    """Beside another table, whose name is that of this one up to the first # or ?."""
    url, options = s3.url(f"{uuid.uuid4().hex}/a lake"), dict(s3.storage_options)
    kind(url, options).append(77)
    see_what_s3_holds(kind(f"{url}#1", options))
    see_what_s3_holds(kind(f"{url}?1", options))


@pytest.mark.s3
def test_iceberg_on_s3(s3: S3, tmp_path: Path) -> None:
    url, file = s3.url(uuid.uuid4().hex), str(tmp_path / "catalog.db")
    see_what_s3_holds(IcebergLake(url, file, dict(s3.storage_options)))


def see_what_s3_holds(lake: Lake) -> None:
    """All that was written, less what was deleted, at the version that was planned."""
    lake.append(*range(5))
    lake.delete(3)
    source = lake.source()
    check_source(source)
    pins = pins_of(source)
    lake.append(5)
    assert ids(source) == [0, 1, 2, 4, 5]
    assert ids(source.as_planned(pins), pins) == [0, 1, 2, 4]
