"""Parquet: every row comes once, with the first file's types, and damage costs only its rows."""

import io
import time
from datetime import date, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.sinks.parquet import ParquetSink
from tasks.kinds.sources import ParquetSource, parquet
from tasks.kinds.sources.fitting import data_error, fitted
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BYTES_PER_READ, BadRow
from tasks.kinds.sources.table_reading.batches import rows_per_read
from tasks.protocol.ids import as_ids
from tasks.protocol.plan_file import shards_of
from tests.kinds.sources.reading import read_all


def store(folder: Path, name: str, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), folder / name, **options)
    return folder / name


def source(folder: Path, **fields: Any) -> ParquetSource:
    return ParquetSource(path=str(folder), **fields)


def test_rows_in_order(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"x": range(5000), "y": [None] * 5000}, row_group_size=1500)
    assert read_all(source(tmp_path)) == [{"x": at, "y": None} for at in range(5000)]
    assert read_all(source(tmp_path, columns=["x"])) == [{"x": at} for at in range(5000)]


def test_thousands_of_columns_are_fitted_without_a_look_at_all_for_each() -> None:
    wide = pa.table({f"c{at}": [at] for at in range(2000)})
    begun = time.thread_time()
    assert fitted(wide.schema, wide).equals(wide)
    assert time.thread_time() - begun < 0.6  # it took 1.7 s


@pytest.mark.parametrize(
    ("empty", "value"),
    [
        ([], [1, 2]),
        ({"x": None, "y": 1}, {"x": 5, "y": 1}),
        ([{"x": []}], [{"x": ["a"]}]),
        ([("key", None)], [("key", 0.5)]),
    ],
    ids=str,
)
def test_what_lists_and_structs_hold_may_show_in_a_later_file(
    tmp_path: Path, empty: Any, value: Any
) -> None:
    """A file in which all lists are empty has no type for what they hold."""
    is_map = isinstance(value, list) and isinstance(value[0], tuple)
    for name, held in (("a", empty), ("b", value)):
        item = pa.null() if held is empty else pa.float64()
        kind = pa.map_(pa.string(), item) if is_map else None
        store(tmp_path, f"{name}.parquet", {"x": pa.array([held], kind)})
    assert read_all(source(tmp_path)) == [{"x": empty}, {"x": value}]


def test_fields_of_structs_that_the_first_file_has_not_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    field = f"{tmp_path.name}_new"
    store(tmp_path, "a.parquet", {"s": [{"x": {"y": 1}}]})
    store(tmp_path, "b.parquet", {"s": [{"x": {"y": 2, field: 3}}]})
    assert read_all(source(tmp_path)) == [{"s": {"x": {"y": 1}}}, {"s": {"x": {"y": 2}}}]
    assert (
        f"b.parquet has columns s.x.{field}, which the first file does" in capsys.readouterr().out
    )


def test_columns_that_differ_from_the_first_files_are_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y, z = (f"{tmp_path.name}_{name}" for name in "xyz")  # a process tells of each once
    store(tmp_path, "a.parquet", {x: [1], y: [1]})
    for name in "bc":
        store(tmp_path, f"{name}.parquet", {x: [2], z: [2]})
    rows = [{x: 1, y: 1}, {x: 2, y: None}, {x: 2, y: None}]
    assert read_all(source(tmp_path)) == rows
    lacks, has = capsys.readouterr().out.splitlines()
    assert (
        f"b.parquet lacks columns {y}, which other files have; they are null in its rows" in lacks
    )
    assert (
        f"b.parquet has columns {z}, which the first file does not have; they are not read" in has
    )
    # Who names columns has said what is wanted.
    assert read_all(source(tmp_path, columns=[x])) == [{x: 1}, {x: 2}, {x: 2}]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("columns", [None, ["id", "x"]])
def test_a_column_that_is_spelt_otherwise_is_not_taken_for_one_that_is_missing(
    tmp_path: Path, columns: list[str] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, "a.parquet", {"id": [1], "x": [0.5]})
    store(tmp_path, "b.parquet", {"ID ": [2], "x": [0.5]})
    store(tmp_path, "c.parquet", {"x": [0.5], "id": [3], "Id": [4]})
    first, bad, last = read_all(source(tmp_path, columns=columns))
    assert (first["id"], last["id"]) == (1, 3)
    said = (
        "the file has the column 'ID ' instead of 'id': use the same name in all files, or leave "
    )
    assert str(bad.error) == f"{said}it out of source.columns"
    assert "b.parquet" not in capsys.readouterr().out, "null in its rows, and not read"


def test_empty_file(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"x": pa.array([], pa.int64())})
    assert read_all(source(tmp_path)) == []


def test_a_big_file_without_row_groups_is_an_input_all_the_same(tmp_path: Path) -> None:
    """Else rows that it had when it was published before would stay."""
    file = tmp_path / "a.parquet"
    pq.ParquetWriter(file, pa.schema({"x": pa.int64()})).close()
    assert pq.read_metadata(file).num_row_groups == 0
    cut = source(tmp_path, split_above_mib=1e-6)
    storage, inputs = list_inputs(cut)
    assert cut.shards(storage, inputs)["path"].to_pylist() == [str(file)]
    assert read_all(cut) == []


def test_big_files_are_cut_at_row_groups(tmp_path: Path) -> None:
    file = store(tmp_path, "a.parquet", {"x": range(1000)}, row_group_size=100)
    group = pq.ParquetFile(file).metadata.row_group(0).total_byte_size
    cut = source(tmp_path, split_above_mib=3 * group / parquet.MIB)
    storage, (stat,) = list_inputs(cut)
    shards = cut.split(storage, stat)
    assert [shard.rows for shard in shards] == [300, 300, 300, 100]
    assert [shard.first_row for shard in shards] == [0, 300, 600, 900]
    assert read_all(cut) == [{"x": at} for at in range(1000)]


def test_footers_of_big_files_are_read_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a store's answers: of ten thousand, one by one, that is a quarter of an hour."""
    for name, rows in (("a", 1_000), ("b", 1), ("c", 1_000)):
        store(tmp_path, f"{name}.parquet", {"x": range(rows)}, row_group_size=400)
    cut = source(tmp_path, split_above_mib=(tmp_path / "b.parquet").stat().st_size / parquet.MIB)
    storage, inputs = list_inputs(cut)
    both, open_alone = Barrier(2, timeout=60), storage.open

    def open_both(path: str) -> Any:
        both.wait()
        return open_alone(path)

    monkeypatch.setattr(storage, "open", open_both)
    shards = shards_of(cut.shards(storage, inputs))
    assert [(Path(each.path).stem, each.start, each.rows) for each in shards] == [
        *(("a", start, rows) for start, rows in enumerate((400, 400, 200))),
        ("b", None, None),
        *(("c", start, rows) for start, rows in enumerate((400, 400, 200))),
    ]


def test_dates_of_spark_that_nanoseconds_have_no_room_for(tmp_path: Path) -> None:
    dates = [datetime(1, 1, 1), datetime(2024, 5, 6, 7, 8, 9, 10), datetime(9999, 12, 31)]
    column = pa.array(dates, pa.timestamp("us"))
    store(tmp_path, "a.parquet", {"t": column}, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.schema.column(0).physical_type == "INT96"
    assert [row["t"] for row in read_all(source(tmp_path))] == dates


def test_a_store_that_does_not_answer_is_no_damage() -> None:
    """A table's own client says so in errors of the same class as a damaged file's."""
    away = OSError("When reading: AWS Error NETWORK_CONNECTION during GetObject: curlCode: 7")
    with pytest.raises(ConnectionError, match="NETWORK_CONNECTION"):
        data_error(away)
    for damaged in (
        OSError("Couldn't deserialize thrift: TProtocolException"),
        pa.ArrowInvalid("Failed to parse string: 'AWS Error' as a scalar of type int64"),
    ):
        assert data_error(damaged) is damaged


@pytest.mark.parametrize("columns", [["y"], ["x", "y"]])
def test_missing_columns_are_told_before_the_run(tmp_path: Path, columns: list[str]) -> None:
    store(tmp_path, "a.parquet", {"x": [1]})
    storage, stats = list_inputs(source(tmp_path))
    with pytest.raises(InvalidSpec, match=r"source.columns: \['y'\] is not among .* file: x"):
        source(tmp_path, columns=columns).pin(storage, stats)


def test_the_column_that_was_meant_is_named(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"stars": [1], "text": ["a"]})
    storage, stats = list_inputs(source(tmp_path))
    with pytest.raises(InvalidSpec, match=r"first file: stars, text; did you mean stars\?$"):
        source(tmp_path, columns=["text", "star"]).pin(storage, stats)


def test_later_files_are_read_as_the_first(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"x": [1], "y": pa.nulls(1), "z": pa.nulls(1)})
    store(tmp_path, "b.parquet", {"y": [0.5], "x": pa.array([2], pa.int8()), "more": ["m"]})
    store(tmp_path, "c.parquet", {"x": [3.0, 3.5], "z": ["c", "d"]})
    found = read_all(source(tmp_path))
    assert found[:3] == [
        {"x": 1, "y": None, "z": None},
        {"x": 2, "y": 0.5, "z": None},
        {"x": 3, "y": None, "z": "c"},
    ]
    assert isinstance(found[3], BadRow)
    assert "column 'x'" in str(found[3].error)


def test_columns_have_the_types_that_the_spec_gives_them(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"x": [1], "zip": [501], "y": pa.nulls(1)})
    store(tmp_path, "b.parquet", {"x": [0.5], "zip": ["00502"], "y": ["y"]})
    store(tmp_path, "c.parquet", {"x": ["?"], "zip": ["00503"], "new": [1], "other": [2]})
    types = {"x": "float64", "zip": "string", "new": "float64"}
    given = source(tmp_path, types=types)
    *rows, bad = read_all(given)
    assert rows == [
        {"x": 1.0, "zip": "501", "y": None, "new": None},
        {"x": 0.5, "zip": "00502", "y": "y", "new": None},
    ]
    assert "'x': string cannot become double without loss: give one type for" in str(bad.error)
    # What an earlier run has set aside is read again as the spec now says.
    storage, stats = list_inputs(given)
    earlier = source(tmp_path).pin(storage, stats)
    again = read_all(given, given.retyped(earlier))
    assert again[:2] == [{name: row[name] for name in ("x", "zip", "y")} for row in rows]


def test_damaged_files_are_none_of_those_that_tell_the_types(tmp_path: Path) -> None:
    for name in ("a", "b", "d"):
        (tmp_path / f"{name}.parquet").write_bytes(b"")
    store(tmp_path, "c.parquet", {"zip": [501]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.kinds.sources.files_to_ask.FIRST_FILES", 2)
        rows = read_all(source(tmp_path, types={"zip": "string"}))
    assert [row for row in rows if not isinstance(row, BadRow)] == [{"zip": "501"}]


def test_types_of_columns_that_are_not_read_are_refused(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"x": [1], "y": [1]})
    with pytest.raises(InvalidSpec, match=r"types: 'y' is not among the columns x:"):
        read_all(source(tmp_path, types={"y": "string"}, columns=["x"]))


def test_a_column_with_a_type_that_no_file_has_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A night's files may lack what those of another have; and a name may be misspelt."""
    store(tmp_path, "a.parquet", {"x": [1], "y": [1]})
    rows = read_all(source(tmp_path, types={"xx": "string"}))
    assert rows == [{"x": 1, "y": 1, "xx": None}]
    said = (
        "source.types: the files do not have the column xx, so it is null there; the first has x, y"
    )
    assert said in caplog.text


def test_a_type_for_a_column_in_another_case_is_refused(tmp_path: Path) -> None:
    """It would be a second column, of nulls."""
    store(tmp_path, "a.parquet", {"Price": [1]})
    said = r"source\.types: 'price' is not a column of any file: did you mean 'Price'\?"
    with pytest.raises(InvalidSpec, match=said):
        read_all(source(tmp_path, types={"price": "string"}))
    store(tmp_path, "b.parquet", {"Price": [2], "price": ["2"]})
    rows = read_all(source(tmp_path, types={"price": "string"}))
    assert [row["price"] for row in rows] == [None, "2"]


def test_a_column_that_only_the_newest_of_many_files_has_can_be_read(tmp_path: Path) -> None:
    for day in range(10, 23):
        store(tmp_path, f"{day}.parquet", {"x": [day]} | ({"new": ["n"]} if day == 22 else {}))
    rows = read_all(source(tmp_path, types={"new": "string"}))
    assert [row["new"] for row in rows] == [None] * 12 + ["n"]


def test_a_later_file_without_a_named_column_gives_bad_rows(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"x": [1], "y": [1]})
    store(tmp_path, "b.parquet", {"x": [2, 3]})
    good, *bad = read_all(source(tmp_path, columns=["y"]))
    assert good == {"y": 1}
    assert [str(row.error) for row in bad] == ["the file has no column y"] * 2


def test_a_column_that_is_there_twice_is_none_of_them(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([at]) for at in (1, 2, 3)], names=["x", "x", "y"])
    pq.write_table(twice, tmp_path / "b.parquet")
    with pytest.raises(InvalidSpec, match=r"source\.columns: \['x'\] occurs more than once"):
        read_all(source(tmp_path))
    assert read_all(source(tmp_path, columns=["y"])) == [{"y": 3}]
    store(tmp_path, "a.parquet", {"x": [0]})
    good, bad = read_all(source(tmp_path))
    assert good == {"x": 0}
    assert str(bad.error) == "the file has two columns x"


def test_wide_rows_come_in_small_reads(tmp_path: Path) -> None:
    wide = np.random.default_rng(0).bytes(100_000)
    store(tmp_path, "a.parquet", {"x": [wide + bytes([at % 256]) for at in range(900)]})
    store(tmp_path, "b.parquet", {"x": [wide] * 900})  # a dictionary: small on disk
    storage, stats = list_inputs(source(tmp_path))
    for stat in stats:
        (shard,) = source(tmp_path).split(storage, stat)
        reads: list[Any] = list(source(tmp_path).read(storage, shard, {}))
        assert max(each.nbytes for each in reads) <= BYTES_PER_READ
        assert sum(len(each) for each in reads) == 900
        assert len(reads) < 10


def test_small_rows_come_many_at_a_time(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"x": range(300_000), "name": ["abc", "d", None] * 100_000})
    storage, (stat,) = list_inputs(source(tmp_path))
    (shard,) = source(tmp_path).split(storage, stat)
    reads: list[Any] = list(source(tmp_path).read(storage, shard, {}))
    assert [len(each) for each in reads] == [131_072, 131_072, 37_856]
    assert pa.concat_tables(reads)["x"].to_pylist() == [*range(300_000)]


@pytest.mark.parametrize("damage", [bytes(100_000), b"\1"])
@pytest.mark.parametrize("others", [{}, {"name": ["abc"] * 60_000}], ids=["numbers", "texts"])
def test_rows_before_a_damaged_page_are_read(
    tmp_path: Path, damage: bytes, others: dict[str, Any]
) -> None:
    """Where the file has checksums, as Spark's have, even one bit of numbers is told."""
    noise = np.random.default_rng(0).integers(0, 1 << 60, 60_000)
    pages = {"use_dictionary": False, "write_page_checksum": True, "data_page_size": 64 << 10}
    file = store(tmp_path, "a.parquet", {"x": noise, **others}, **pages)
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
    content = bytearray(file.read_bytes())
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    content[middle : middle + len(damage)] = damage
    file.write_bytes(content)
    found = read_all(source(tmp_path))
    good = [row["x"] for row in found if not isinstance(row, BadRow)]
    assert 20_000 < len(good) < 40_000
    assert good == noise[: len(good)].tolist()
    assert len(found) == len(noise)
    assert {str(row.error) for row in found[len(good) :]} == {
        "the file is damaged, or not a Parquet file: could not verify page integrity, CRC "
        f"checksum verification failed for page_ordinal {len(good) // 8192}; if its writer is "
        "known to write wrong checksums, set source.verify_checksums: false"
    }
    if len(damage) == 1:
        unverified = read_all(source(tmp_path, verify_checksums=False))
        assert [row["x"] != x for row, x in zip(unverified, noise, strict=True)].count(True) == 1


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello" * 100])
def test_what_is_no_parquet_is_one_bad_row(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    store(tmp_path, "b.parquet", {"x": [1]})
    bad, good = read_all(source(tmp_path))
    assert isinstance(bad, BadRow)
    assert good == {"x": 1}


@pytest.mark.parametrize("split", [False, True])
def test_damage_costs_its_rows_only(tmp_path: Path, split: bool) -> None:
    noise = np.random.default_rng(0).integers(0, 1 << 60, 3000)
    file = store(tmp_path, "a.parquet", {"x": noise}, row_group_size=1000, compression="zstd")
    chunk = pq.ParquetFile(file).metadata.row_group(1).column(0)
    content = bytearray(file.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(bytes(content))
    found = read_all(source(tmp_path, **({"split_above_mib": 1e-6} if split else {})))
    assert [isinstance(row, BadRow) for row in found] == [1000 <= at < 2000 for at in range(3000)]
    assert [row["x"] for row in found[:1000] + found[2000:]] == [*noise[:1000], *noise[2000:]]


class BreakingFile(io.BytesIO):
    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(path.read_bytes())
        self.reads, self.error = 0, error

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        if self.reads > 1:  # the footer is read, the rows are not
            raise self.error
        return super().read(size)


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), ConnectionError("reset"), TimeoutError("slow")]
)
def test_storage_errors_are_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    store(tmp_path, "a.parquet", {"x": range(100_000)}, compression="none")
    storage, (stat,) = list_inputs(source(tmp_path))
    (shard,) = source(tmp_path).split(storage, stat)
    monkeypatch.setattr(storage, "open", lambda path: BreakingFile(Path(path), error))
    with pytest.raises(type(error), match=str(error.args[-1])):
        list(source(tmp_path).read(storage, shard, {}))


def test_texts_and_lists_come_in_the_types_that_all_know(tmp_path: Path) -> None:
    words, bytes_ = pa.array(["a", "b"]), pa.array([b"a", b"b"])
    dictionary = pa.dictionary(pa.int32(), pa.string())
    columns = {
        "view": words.cast(pa.string_view()),
        "large": words.cast(pa.large_string()),
        "bytes": bytes_.cast(pa.large_binary()),
        "words": pa.array([["a"], ["b"]]).cast(pa.list_(dictionary)),
        "numbers": pa.array([[1], [2]], pa.large_list(pa.int64())),
    }
    store(tmp_path, "a.parquet", columns)
    storage, (stat,) = list_inputs(source(tmp_path))
    (shard,) = source(tmp_path).split(storage, stat)
    [read] = source(tmp_path).read(storage, shard, source(tmp_path).pin(storage, [stat]))
    assert isinstance(read, pa.Table)
    kinds = ["string", "string", "binary", "list<item: string>", "list<item: int64>"]
    assert [*map(str, read.schema.types)] == kinds
    assert read.to_pylist()[1] == {
        "view": "b",
        "large": "b",
        "bytes": b"b",
        "words": ["b"],
        "numbers": [2],
    }


def test_a_frames_index_does_not_come_back_as_one(tmp_path: Path) -> None:
    frame = pa.table({"x": ["a", "c"]}).to_pandas().set_index("x").assign(y=1)
    frame.to_parquet(tmp_path / "a.parquet")
    storage, (stat,) = list_inputs(source(tmp_path))
    (shard,) = source(tmp_path).split(storage, stat)
    pins = source(tmp_path).pin(storage, [stat])
    reads: list[Any] = list(source(tmp_path).read(storage, shard, pins))
    assert list(reads[0].to_pandas().columns) == ["y", "x"]


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ({"x": "float", "day": "timestamp[us]", "yes": "bool"}, 131_072),
        ({f"x{at}": "int64" for at in range(64)}, 65_536),
        ({"x": "float", "text": "string"}, 2_048),
        ({"x": "float", "user.text": "string"}, 2_048),
        ({"x": "float", "user.id": "int64", "user.": "int64"}, 131_072),
        ({"x": "float", "many": "list<item: float>"}, 2_048),
    ],
)
def test_so_many_rows_at_a_time_as_surely_fit(
    tmp_path: Path, columns: dict[str, str], rows: int
) -> None:
    # Nulls take next to no room in a file, and their whole width in memory.
    types = {"list<item: float>": pa.list_(pa.float32())}
    of = {name: types.get(kind) or pa.type_for_alias(kind) for name, kind in columns.items()}
    file = store(tmp_path, "a.parquet", {n: pa.nulls(200_000, kind) for n, kind in of.items()})
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert rows_per_read(group, {*columns}) == rows
    assert rows_per_read(group, {"x", "x0"}) == 131_072


TYPES = {"class": "string", "day": "date", "level": "int64"}


def in_folders(folder: Path, named: str, x: list[int]) -> None:
    (folder / named).mkdir(parents=True)
    store(folder, f"{named}/a.parquet", {"x": x})


def test_folders_are_columns(tmp_path: Path) -> None:
    in_folders(tmp_path, "class=a%2Fb/day=2026-01-31/level=7", [1, 2])
    in_folders(tmp_path, "day=2026-02-01/level=8/class=__HIVE_DEFAULT_PARTITION__", [3])
    rows = read_all(source(tmp_path, partition_columns=TYPES))
    first = {"class": "a/b", "day": date(2026, 1, 31), "level": 7}
    last = {"class": None, "day": date(2026, 2, 1), "level": 8}
    assert rows == [{"x": 1, **first}, {"x": 2, **first}, {"x": 3, **last}]
    only = source(tmp_path, columns=["level", "x"], partition_columns={"level": "int64"})
    assert read_all(only)[-1] == {"x": 3, "level": 8}
    assert read_all(source(tmp_path, columns=["x"], partition_columns=TYPES))[-1] == {"x": 3}
    with pytest.raises(ValidationError, match="columns lists only folders"):
        source(tmp_path, columns=["level"], partition_columns=TYPES)


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        (
            "level=high",
            "the folder level=high is not of type int64: Failed to parse string: 'high'",
        ),
        (
            "level=9%E9",
            "the folder level=9%E9 is not of type int64: 'utf-8' codec can't decode byte 0xe9",
        ),
        ("other", "the file is not in a folder level=..."),
    ],
)
def test_a_file_in_no_such_folder_is_set_aside(tmp_path: Path, folder: str, problem: str) -> None:
    in_folders(tmp_path, "level=1", [1])
    in_folders(tmp_path, folder, [2, 3])
    row, *bad = read_all(source(tmp_path, partition_columns={"level": "int64"}))
    assert row == {"x": 1, "level": 1}
    assert [problem in str(each.error) for each in bad] == [True, True]


def test_a_folder_of_no_input_is_refused_by_the_plan(tmp_path: Path) -> None:
    message = (
        r"source\.partition_columns: 'lvl' is not among .* input; those of '.*a.parquet': level$"
    )
    misspelt = source(tmp_path, partition_columns={"lvl": "int64"})
    for name in ("aside", "level=1"):  # the first file alone tells nothing
        in_folders(tmp_path, name, [1])
    with pytest.raises(InvalidSpec, match=message.replace("level$", "none$")):
        read_all(misspelt)
    (tmp_path / "aside/a.parquet").unlink()
    with pytest.raises(InvalidSpec, match=message):
        read_all(misspelt)


def test_a_column_is_in_the_files_or_a_folder(tmp_path: Path) -> None:
    in_folders(tmp_path, "x=1", [1])
    with pytest.raises(
        InvalidSpec, match=r"source\.partition_columns: \['x'\] is also a column of the"
    ):
        read_all(source(tmp_path, partition_columns={"x": "int64"}))


def test_what_a_sink_has_made_folders_of_comes_back(tmp_path: Path) -> None:
    rows = pa.table({"class": ["cat", "dog/2", "cat"], "x": [1, 2, 3]})
    for part in ParquetSink(path="out", partition_by=["class"]).parts(rows, as_ids([0, 1, 2])):
        (tmp_path / part.partition).mkdir(parents=True)
        (tmp_path / part.partition / "a.parquet").write_bytes(part.data)
    found = read_all(source(tmp_path, partition_columns={"class": "string"}))
    assert found == [
        {"x": 1, "class": "cat"},
        {"x": 3, "class": "cat"},
        {"x": 2, "class": "dog/2"},
    ]


def test_values_that_another_file_has_otherwise_stay_what_they_are(tmp_path: Path) -> None:
    store(tmp_path, "a.parquet", {"zip": [10001], "day": [date(2026, 1, 1)]})
    store(tmp_path, "b.parquet", {"zip": ["00501"], "day": [datetime(2026, 1, 1, 23)]})
    first, second = read_all(source(tmp_path))
    assert first == {"zip": 10001, "day": date(2026, 1, 1)}
    assert isinstance(second, BadRow)
    assert "column 'zip': string cannot become int64 without loss" in str(second.error)
