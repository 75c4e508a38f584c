"""Two writers that pin the output schema at once: one counts, and the run can go on."""

import io
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InvalidSpec, SchemaMismatch
from tasks.kinds.column_types import NO_VALUE
from tasks.kinds.tensors import TENSOR, tensor_array
from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.records import Record, load_records
from tasks.ray_job import output_schema
from tasks.ray_job.job import Job
from tasks.ray_job.output_schema import KNOWN, digest, of_pinned_schema, pinned
from tasks.ray_job.writing import write_batches
from tasks.run_folder import pin_schema
from tasks.spec_file import parse_spec


@pytest.fixture
def job(tmp_path: Path) -> Job:
    KNOWN.clear()
    spec = parse_spec(
        {
            "source": {"kind": "parquet", "path": str(tmp_path / "in")},
            "model": {"kind": "python", "class": "nowhere:Model"},
            "sink": {"kind": "parquet", "path": str(tmp_path / "out")},
            "cluster": {"kind": "inline"},
        }
    )
    return Job(spec, "run", 1, "plan", {}, 1, 0, None, "todo")


def batch(row: int, value: object) -> RowBatch:
    return RowBatch(pa.table({ROW: pa.array([row], pa.int64()), "y": [value]}))


def test_a_record_of_a_schema_that_lost_does_not_hold_up_all_later_ones(job: Job) -> None:
    write_batches(job, [batch(0, 1)])  # pins a column of whole numbers
    # Another writer had taken an earlier name, and stored its schema only now.
    winner = pa.schema([("y", pa.float64())]).serialize().to_pybytes()
    job.storage.write(f"{job.run.schemas}/{1:020d}-earlier.arrow", winner)
    write_batches(job, [batch(1, 1)])  # this process remembers what it has read
    KNOWN.clear()
    mended = [write_batches(job, [batch(row, 0.5)]) for row in (0, 1)]
    records = load_records(job.storage, job.run)
    assert len(records) == 4
    assert [record.name for record in kept(job, records)] == [record.name for record in mended]


def test_batches_of_one_write_fit_the_pinned_schema_each_by_itself(job: Job) -> None:
    write_batches(job, [batch(0, "a")])
    # Alone each of them is made text; together they have no type.
    record = write_batches(job, [batch(1, 2), batch(2, None), batch(3, "b")])
    assert record.ok.ids().tolist() == [1, 2, 3]
    assert kept(job, [record]) == [record]


def test_the_first_write_pins_a_type_that_takes_all_its_batches(job: Job) -> None:
    write_batches(job, [batch(0, 1), batch(1, 0.5)])
    assert pinned(job.storage, job.run) == pa.schema([("y", pa.float64())])


def test_what_does_not_fit_is_said_of_the_batch_that_does_not(job: Job) -> None:
    with pytest.raises(SchemaMismatch, match=r"stage write failed .*: y is int64 and string: "):
        write_batches(job, [batch(0, 1), batch(1, "one")])
    write_batches(job, [batch(0, 0.5)])
    with pytest.raises(SchemaMismatch, match=r"y is string, not double: .*loss") as caught:
        write_batches(job, [batch(1, 1.5), batch(2, "two")])
    assert (caught.value.stage, caught.value.row) == ("write", 2)


def test_a_later_batch_of_other_columns_is_refused(job: Job) -> None:
    def with_columns(row: int, *names: str) -> RowBatch:
        columns = {name: [row] for name in names}
        return RowBatch(pa.table({ROW: pa.array([row], pa.int64()), **columns}))

    write_batches(job, [with_columns(0, "y")])
    more = r"a batch has columns \['z'\] that the first batch did not have: "
    with pytest.raises(SchemaMismatch, match=more) as caught:
        write_batches(job, [with_columns(1, "y", "z")])
    assert caught.value.stage == "write"
    others = r"columns \['z'\] that the first batch did not have, and lacks \['y'\]: "
    with pytest.raises(SchemaMismatch, match=others) as caught:
        write_batches(job, [with_columns(1, "z")])
    assert caught.value.stage == "write"
    with pytest.raises(SchemaMismatch, match=r"a batch lacks \['y'\]: "):
        write_batches(job, [RowBatch(pa.table({ROW: pa.array([1], pa.int64())}))])


def test_no_number_is_made_of_text(job: Job) -> None:
    write_batches(job, [batch(0, 501)])
    with pytest.raises(
        SchemaMismatch, match=r"y is string, not int64: .* source\.types, and publish"
    ):
        write_batches(job, [batch(1, "00502")])


@pytest.mark.parametrize("types", [{}, {"y": "int64"}])
def test_no_text_is_made_of_what_a_source_took_for_numbers(job: Job, types: dict[str, str]) -> None:
    """Files of one day have A123 among their codes, those of the next digits only."""
    source = parse_spec(
        {**job.spec.model_dump(), "source": {"kind": "csv", "path": "in", "types": types}}
    )
    read = {"schema": pa.schema({"y": pa.int64()}).serialize().to_pybytes().hex()}
    job = replace(job, spec=source, pins={"reader": read})
    write_batches(job, [batch(0, "A123")])
    if types:  # somebody has said that they are numbers
        write_batches(job, [batch(1, 501)])
        return
    problem = r"y is int64, not string, and .* source\.types, and publish rows .* --replace"
    with pytest.raises(SchemaMismatch, match=problem):
        write_batches(job, [batch(1, 501)])
    renamed = {**source.model_dump(), "steps": [{"kind": "rename", "columns": {"zip": "y"}}]}
    read = {"schema": pa.schema({"zip": pa.int64()}).serialize().to_pybytes().hex()}
    with pytest.raises(SchemaMismatch, match=problem):
        write_batches(
            replace(job, spec=parse_spec(renamed), pins={"reader": read}), [batch(1, 501)]
        )


@pytest.mark.parametrize(
    ("first", "then", "kind"),
    [
        ({"zip": "00501"}, {"zip": 501}, pa.struct({"zip": pa.int64()})),
        ([{"zip": "00501"}], [{"zip": 501}], pa.list_(pa.struct({"zip": pa.int64()}))),
        (["00501"], [501], pa.list_(pa.int64())),
        ({"zip": "00501"}, {"zip": None}, pa.struct({"zip": pa.int64()})),
        (["00501"], [], pa.list_(pa.int64())),
    ],
)
def test_numbers_within_values_that_a_source_took_for_such_become_no_text(
    job: Job, first: object, then: object, kind: pa.DataType
) -> None:
    source = parse_spec({**job.spec.model_dump(), "source": {"kind": "jsonl", "path": "in"}})
    read = {"schema": pa.schema({"y": kind}).serialize().to_pybytes().hex()}
    job = replace(job, spec=source, pins={"reader": read})
    write_batches(job, [batch(0, first)])
    rows = pa.table({ROW: pa.array([1], pa.int64()), "y": pa.array([then], kind)})
    if "501" not in str(then):
        write_batches(job, [RowBatch(rows)])
        return
    with pytest.raises(SchemaMismatch, match="neither converts to the other"):
        write_batches(job, [RowBatch(rows)])


@pytest.mark.parametrize("part", ["reader", "readers"])
def test_a_redrive_knows_what_a_source_took_for_numbers(job: Job, part: str) -> None:
    """It reads rows as the run did that set them aside."""
    source = parse_spec({**job.spec.model_dump(), "source": {"kind": "csv", "path": "in"}})
    read = {"schema": pa.schema({"y": pa.int64()}).serialize().to_pybytes().hex()}
    pins = {"reader": read} if part == "reader" else {"reader": {}, "readers": {"earlier": read}}
    job = replace(job, spec=source, pins=pins)
    write_batches(job, [batch(0, "A123")])
    with pytest.raises(SchemaMismatch, match="y is int64, not string"):
        write_batches(job, [batch(1, 501)])


def test_times_are_made_utc_where_a_source_did_not_guess_them(job: Job) -> None:
    write_batches(job, [batch(0, datetime(2026, 1, 1, tzinfo=UTC))])
    write_batches(job, [batch(1, datetime(2026, 1, 1))])
    source = parse_spec({**job.spec.model_dump(), "source": {"kind": "csv", "path": "in"}})
    read = {"schema": pa.schema({"y": pa.timestamp("us")}).serialize().to_pybytes().hex()}
    with pytest.raises(SchemaMismatch, match="neither converts to the other"):
        write_batches(
            replace(job, spec=source, pins={"reader": read}), [batch(2, datetime(2026, 1, 1))]
        )


def counted(job: Job, records: list[Record]) -> list[int]:
    """Rows whose records count."""
    return [int(row) for record in kept(job, records) for row in record.ok.ids()]


def kept(job: Job, records: list[Record]) -> list[Record]:
    """Records that count."""
    grows = job.spec.sink.takes_new_columns
    return of_pinned_schema(job.storage, job.run, records, takes_new_columns=grows)


MAP = pa.map_(pa.string(), pa.float64())
PAIR = pa.list_(pa.float64(), 1)
MAP_OF_NOTHING = pa.scalar([], pa.map_(pa.string(), pa.null()))
STRUCT = pa.struct([("a", pa.list_(pa.float64())), ("b", pa.string())])


@pytest.mark.parametrize(
    ("first", "later", "kind"),
    [
        (None, 0.5, pa.float64()),
        (None, [0.5], pa.list_(pa.float64())),
        ([], [0.5], pa.list_(pa.float64())),
        ([], [[]], pa.list_(pa.list_(pa.string()))),
        ([], pa.scalar([0.5], pa.list_(pa.float64(), 1)), pa.list_(pa.float64())),
        ({"a": []}, {"a": [1]}, pa.struct([("a", pa.list_(pa.int64()))])),
        (pa.scalar([None], pa.list_(pa.null(), 1)), pa.scalar([0.5], PAIR), PAIR),
        (MAP_OF_NOTHING, pa.scalar([("a", 0.5)], MAP), MAP),
        ([{"a": [], "b": None}], [{"a": [0.5], "b": "c"}], pa.list_(STRUCT)),
    ],
)
def test_a_type_that_nobody_knew_is_taken_from_who_does(
    job: Job, first: object, later: object, kind: pa.DataType
) -> None:
    """Which batch comes first differs from run to run."""
    early = write_batches(job, [batch(0, first)])
    known = write_batches(job, [batch(1, later), batch(2, None), batch(3, first)])
    assert pinned(job.storage, job.run) == pa.schema([("y", kind)])
    assert counted(job, [early, known]) == [1, 2, 3], "those of before are made anew"
    again = write_batches(job, [batch(0, first)])
    assert counted(job, [early, known, again]) == [1, 2, 3, 0]
    files = [f"{job.run.staging}/{each.name}" for each in (*known.files, *again.files)]
    tables = [pq.read_table(io.BytesIO(job.storage.read(path))) for path in files]
    assert [each.schema for each in tables] == [pa.schema([("y", kind)])] * 2
    values = [pa.scalar(each).as_py() for each in (later, None, first, first)]
    assert pa.concat_tables(tables)["y"].to_pylist() == values


def pinned_type(job: Job) -> pa.DataType:
    """Of the only column."""
    schema = pinned(job.storage, job.run)
    return schema.field("y").type if schema else None


MONEY = [Decimal("1.25"), Decimal("12.5"), Decimal("0.125")]
TIMES = [pa.scalar(1, pa.timestamp("s")), pa.scalar(1, pa.timestamp("ms"))]
PAIRS = [pa.scalar([0.5] * size, pa.list_(pa.float64(), size)) for size in (2, 3)]
"""Two sizes of arrays."""
EXACT = [{"a": Decimal("0.10"), "b": Decimal("0.20")}, {"a": 0.125, "b": Decimal("0.20")}]
OBJECTS = [[{"a": 1}], [{"a": 0.5, "b": "c"}]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 0.5, 3], pa.float64()),
        ([[0], [0.5], [1, 2]], pa.list_(pa.float64())),
        ([pa.scalar(1, pa.int8()), pa.scalar(300, pa.int16())], pa.int16()),
        (MONEY, pa.decimal128(5, 3)),
        (TIMES, pa.timestamp("ms")),
        ([{"a": 1}, {"b": "c"}, {"a": 2}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        (OBJECTS, pa.list_(pa.struct([("a", pa.float64()), ("b", pa.string())]))),
        ([{"a": 1}, {"b": None}, {"b": 5}], pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        ([PAIRS[0], PAIRS[1], [0.5]], pa.list_(pa.float64())),
    ],
)
def test_a_type_is_widened_for_rows_that_do_not_fit(
    job: Job, values: list[object], kind: pa.DataType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 0, 0, 0.5 the first batches have whole numbers only."""
    first, *others = [write_batches(job, [batch(row, value)]) for row, value in enumerate(values)]
    assert pinned(job.storage, job.run) == pa.schema([("y", kind)])
    assert f" -> {pinned_type(job)}: earlier ones are made again" in capsys.readouterr().out
    of_last = [each for each in others if each.schema == others[-1].schema]
    assert counted(job, [first, *others]) == [int(row) for each in of_last for row in each.ok.ids()]
    KNOWN.clear()
    again = [write_batches(job, [batch(row, value)]) for row, value in enumerate(values)]
    assert counted(job, again) == list(range(len(values)))
    files = [f"{job.run.staging}/{file.name}" for each in again for file in each.files]
    tables = [pq.read_table(io.BytesIO(job.storage.read(path))) for path in files]
    assert [each.schema for each in tables] == [pa.schema([("y", kind)])] * len(values)
    wanted = pa.chunked_array([pa.array([value]).cast(kind) for value in values])
    assert pa.concat_tables(tables)["y"].to_pylist() == wanted.to_pylist()


BOX, BOXES = (
    pa.array([[[0.5, 1.0]] * size], pa.list_(pa.list_(pa.float32(), 2), size)) for size in (1, 2)
)
SEVERAL = tensor_array([np.ones((2, 2), np.float32), np.ones((0, 2), np.float32)])
"""Of several shapes, as boxes in pictures."""


@pytest.mark.parametrize(
    ("arrays", "kind"),
    [
        ([BOX, SEVERAL, BOX], TENSOR),
        ([SEVERAL, BOX, BOXES], TENSOR),
        ([BOX, BOXES, SEVERAL], pa.list_(pa.list_(pa.float32(), 2))),
    ],
    ids=["of one shape first", "of several first", "of two before"],
)
def test_a_batch_whose_arrays_are_of_one_shape_goes_with_others(
    job: Job, arrays: list[pa.Array], kind: pa.DataType
) -> None:
    """By chance there is one box in each of its pictures."""
    ids = iter(range(10))
    batches = [
        RowBatch(pa.table({ROW: pa.array([next(ids) for _ in each], pa.int64()), "y": each}))
        for each in arrays
    ]
    for each in batches:
        write_batches(job, [each])
    assert pinned_type(job) == kind
    KNOWN.clear()
    again = [write_batches(job, [each]) for each in batches]
    assert counted(job, again) == list(range(sum(map(len, arrays))))


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (1, 2.0),
        (pa.scalar(1, pa.int32()), 2),
        (0.5, 1),
        ({"a": 1, "b": 0.5}, {"a": 1}),
        (pa.scalar(0.5, pa.float32()), 0.1),
    ],
)
def test_what_fits_changes_no_type(job: Job, first: object, later: object) -> None:
    """Each change costs what was written before."""
    records = [write_batches(job, [batch(row, value)]) for row, value in enumerate([first, later])]
    assert counted(job, records) == [0, 1]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (2**60 + 1, 0.5),
        (1, "one"),
        (True, 2),
        (1, [1]),
        (Decimal("0.25"), 0.5),
        EXACT,
        ("a", b"\xff"),
    ],
)
def test_no_type_is_widened_to_one_that_loses_a_value(
    job: Job, first: object, later: object
) -> None:
    record = write_batches(job, [batch(0, first)])
    with suppress(SchemaMismatch):
        write_batches(job, [batch(1, later)])
        record = write_batches(job, [batch(0, 0)])
    assert counted(job, [record]) == [0], "what fails changes nothing"
    with pytest.raises(SchemaMismatch, match="y is "):
        write_batches(job, [batch(0, first), batch(1, later)])


@pytest.mark.parametrize(
    ("given", "values", "kind"),
    [
        ("float64", [0, 0.5, None], pa.float64()),
        ("float32", [0, 0.5, 2], pa.float32()),
        ("list<float32>", [[], None, [0.5], [1]], pa.list_(pa.float32())),
        ("string", [1, "one", None], pa.string()),
        ("timestamp", [None, datetime(2026, 1, 1)], pa.timestamp("us")),
    ],
)
def test_a_given_type_is_that_of_all_rows(
    job: Job, given: str, values: list[object], kind: pa.DataType
) -> None:
    """And nothing is made anew for it."""
    job = with_sink(job, types={"y": given})
    records = [write_batches(job, [batch(row, value)]) for row, value in enumerate(values)]
    assert pinned(job.storage, job.run) == pa.schema([("y", kind)])
    assert counted(job, records) == list(range(len(values)))


@pytest.mark.parametrize(
    ("given", "value"), [("int64", 0.5), ("int8", 300), ("bool", 1), ("list<string>", "a")]
)
def test_a_given_type_that_a_value_does_not_fit_is_kept(
    job: Job, given: str, value: object
) -> None:
    job = with_sink(job, types={"y": given})
    with pytest.raises(SchemaMismatch, match=r"y is .*, not .*: .* sink\.types"):
        write_batches(job, [batch(0, value)])


def with_sink(job: Job, **changes: Any) -> Job:
    given = job.spec.model_dump()
    return replace(job, spec=parse_spec({**given, "sink": {**given["sink"], **changes}}))


def test_a_given_type_of_no_column_is_named(job: Job) -> None:
    with pytest.raises(InvalidSpec, match=r"sink\.types: 'z' is not among the columns .*: y"):
        write_batches(with_sink(job, types={"z": "int64"}), [batch(0, 1)])


def test_what_fits_in_no_type_makes_none_of_its_columns_wider(job: Job) -> None:
    def of(row: int, y: object, z: object) -> RowBatch:
        return RowBatch(pa.table({ROW: pa.array([row], pa.int64()), "y": [y], "z": [z]}))

    record = write_batches(job, [of(0, 1, 1)])
    with pytest.raises(SchemaMismatch, match="z is string, not int64"):
        write_batches(job, [of(1, 0.5, "one")])
    assert counted(job, [record]) == [0]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ({"a": None, "b": 0}, {"a": 0.5, "b": 0.5}),
        ({"a": [], "b": 0}, {"a": ["text"], "b": 0.5, "c": 1}),
    ],
)
def test_a_batch_may_tell_one_type_and_widen_another(
    job: Job, first: dict[str, Any], later: dict[str, Any]
) -> None:
    for row, value in enumerate([first, later]):
        columns = {"y": [value], "z": [None if row == 0 else 1], "w": [row / 2 if row else 0]}
        write_batches(job, [RowBatch(pa.table({ROW: pa.array([row], pa.int64()), **columns}))])
    schema = pinned(job.storage, job.run)
    assert schema
    assert [schema.field(name).type for name in "zw"] == [pa.int64(), pa.float64()]
    assert schema.field("y").type == pa.array([later]).type


def test_names_that_are_data_are_not_followed_for_ever(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of them would have all be predicted once more."""
    write_batches(job, [batch(row, {f"label-{row}": 0.5}) for row in range(2)])
    for row in range(2, 2 + output_schema.MOST_CHANGES):
        write_batches(job, [batch(row, {f"label-{row}": 0.5})])
    with pytest.raises(SchemaMismatch, match=r"changed .* 20 times.*: if names of fields or"):
        write_batches(job, [batch(100, {"label-100": 0.5})])
    assert max(map(len, capsys.readouterr().out.splitlines())) < 300


def test_another_process_learns_of_a_wider_type(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    write_batches(job, [batch(0, 1)])
    seen = dict(KNOWN)
    wide = write_batches(job, [batch(1, 0.5)])
    KNOWN.update(seen)
    narrow = write_batches(job, [batch(2, 2)])
    again = write_batches(job, [batch(3, 0.25)])  # it does not fit: the other's type does
    assert len(job.storage.list(job.run.schemas)) == 2
    KNOWN.update(seen)
    monkeypatch.setattr(output_schema, "LOOK_SECONDS", 0.0)
    later = write_batches(job, [batch(4, 4)])
    assert counted(job, [wide, narrow, again, later]) == [1, 3, 4]


def test_what_is_published_is_not_widened(job: Job) -> None:
    published = pa.schema([("y", pa.int64())])
    pin_schema(job.storage, job.run, published.serialize().to_pybytes(), takes_new_columns=False)
    write_batches(job, [batch(0, 1)])
    with pytest.raises(SchemaMismatch, match=r"y is double, not int64: .*--replace-output"):
        write_batches(job, [batch(1, 0.5)])
    assert pinned(job.storage, job.run) == published


def test_batches_of_one_write_may_differ_in_columns(job: Job, tmp_path: Path) -> None:
    job = with_sink(job, kind="delta", path=str(tmp_path / "table"), evolve_schema=True)
    batches = [
        RowBatch(pa.table({ROW: [row], "y": [1], **more}))
        for row, more in enumerate([{"a": [2]}, {"b": [3]}, {}])
    ]
    record = write_batches(job, batches)
    assert counted(job, [record]) == [0, 1, 2]
    (file,) = record.files
    rows = job.spec.sink.decode(job.storage.read(f"{job.run.staging}/{file.name}"))
    assert rows.to_pydict() == {"y": [1, 1, 1], "a": [2, None, None], "b": [None, 3, None]}


def test_columns_that_others_have_published_meanwhile_are_the_runs_too(
    job: Job, tmp_path: Path
) -> None:
    def pin_published(*names: str) -> bool:
        published = pa.schema([(name, pa.int64()) for name in names]).serialize().to_pybytes()
        return pin_schema(job.storage, job.run, published, takes_new_columns=True)

    def of(row: int, **columns: int) -> RowBatch:
        return RowBatch(pa.table({ROW: [row], **{name: [n] for name, n in columns.items()}}))

    job = with_sink(job, kind="delta", path=str(tmp_path / "table"), evolve_schema=True)
    assert not pin_published("y")
    records = [write_batches(job, [of(0, y=1)]), write_batches(job, [of(1, y=1, own=2)])]
    assert counted(job, records) == [0, 1], "the first has nothing in the column that came later"
    assert not pin_published("y")
    assert pin_published("y", "theirs")
    assert counted(job, records) == [0]
    KNOWN.clear()
    records.append(write_batches(job, [of(1, y=1, own=2)]))
    assert counted(job, records) == [0, 1]
    schema = pinned(job.storage, job.run)
    assert schema
    assert schema.names == ["y", "theirs", "own"]
    assert not pin_published("y", "theirs")


def test_rows_that_lack_what_others_have_published_meanwhile_are_made_anew(job: Job) -> None:
    """Files have the same columns, where the output takes no new ones."""
    records = [write_batches(job, [batch(0, 1)])]
    published = pa.schema([("y", pa.int64()), ("theirs", pa.int64())]).serialize().to_pybytes()
    assert pin_schema(job.storage, job.run, published, takes_new_columns=False)
    assert counted(job, records) == []


@pytest.mark.parametrize("values", [(None, 0.5), ([], [0.5]), ({"a": []}, {"a": [0.5]})])
def test_the_first_write_may_know_a_type_in_a_later_batch(
    job: Job, values: tuple[object, ...]
) -> None:
    write_batches(job, [batch(row, value) for row, value in enumerate(values)])
    assert pinned(job.storage, job.run) == pa.schema([("y", pa.array(values).type)])


def test_what_tells_no_type_changes_nothing(job: Job) -> None:
    """Each change costs what was written before."""
    kind = pa.struct([("a", pa.large_list(pa.string())), ("b", pa.null())])
    values = pa.array([{"a": ["text"], "b": None}], kind)
    batches = [RowBatch(pa.table({ROW: [row], "y": values})) for row in range(3)]
    records = [write_batches(job, [each]) for each in batches]
    assert counted(job, records) == [0, 1, 2]
    assert len(job.storage.list(job.run.schemas)) == 1


def test_text_in_another_layout_changes_nothing(job: Job) -> None:
    records = []
    for row, kind in enumerate([pa.null(), pa.string_view(), pa.large_string()]):
        value = None if row == 0 else "text"
        values = pa.array([{"a": value, "b": "c"}], pa.struct([("a", kind), ("b", pa.string())]))
        records.append(write_batches(job, [RowBatch(pa.table({ROW: [row], "y": values}))]))
    assert counted(job, records) == [0, 1, 2]


def test_text_is_what_it_was_taken_for(job: Job) -> None:
    records = [write_batches(job, [batch(row, y)]) for row, y in enumerate([None, "text", None])]
    assert counted(job, records) == [0, 1, 2]
    write_batches(job, [batch(3, 0.5)])
    with pytest.raises(SchemaMismatch, match="y is string, not double"):
        write_batches(job, [batch(1, "text")])


def test_each_of_two_writers_knows_a_type(job: Job) -> None:
    def of(row: int, y: object, z: object) -> RowBatch:
        columns = {"y": [y], "z": [z]}
        return RowBatch(pa.table({ROW: pa.array([row], pa.int64()), **columns}))

    early = write_batches(job, [of(0, None, None)])
    seen = dict(KNOWN)
    known = write_batches(job, [of(1, 1, None)])
    KNOWN.update(seen)  # as another process has seen it
    both = write_batches(job, [of(2, None, [0.5])])
    types = pa.schema([("y", pa.int64()), ("z", pa.list_(pa.float64()))])
    assert pinned(job.storage, job.run) == types
    assert counted(job, [early, known, both]) == [2]


@pytest.mark.parametrize("names", [("a" * 12, "b" * 12), ("b" * 12, "a" * 12)])
def test_of_two_who_add_types_at_once_the_first_by_name_counts(
    job: Job, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_batches(job, [batch(0, None)])
    ids = iter([SimpleNamespace(hex=name) for name in names])
    monkeypatch.setattr(output_schema, "uuid", SimpleNamespace(uuid4=lambda: next(ids)))
    store = type(job.storage).write

    def write(storage: Any, path: str, data: bytes) -> None:
        """Another process does the same in the same moment."""
        if "/schemas/" in path and names[1] not in path:
            other = pa.schema([("y", pa.float64())]).serialize().to_pybytes()
            store(storage, path.replace(*names), other)
        store(storage, path, data)

    monkeypatch.setattr(type(job.storage), "write", write)
    write_batches(job, [batch(1, 1)])
    kind = pa.int64() if names[0] < names[1] else pa.float64()
    assert pinned(job.storage, job.run) == pa.schema([("y", kind)])


def test_what_is_published_keeps_its_types(job: Job) -> None:
    schema = pa.schema([pa.field("y", pa.list_(pa.string()), metadata=NO_VALUE)])
    pin_schema(job.storage, job.run, schema.serialize().to_pybytes(), takes_new_columns=False)
    records = [write_batches(job, [batch(row, y)]) for row, y in enumerate([None, [], ["a"]])]
    assert counted(job, records) == [0, 1, 2]
    problem = r"y had no value.* got the type list<.*string>; here it is list<.*double>: "
    with pytest.raises(SchemaMismatch, match=problem):
        write_batches(job, [batch(3, [0.5])])


def test_a_column_without_any_value_fits_every_type(job: Job) -> None:
    """A source takes it for text, night after night, whatever it is in others."""
    write_batches(job, [batch(0, 0.5)])
    empty = pa.table({ROW: pa.array([1], pa.int64()), "y": pa.array([None], pa.string())})
    assert write_batches(job, [RowBatch(empty)]).ok.ids().tolist() == [1]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("parquet", pa.MonthDayNano([1, 0, 0])),
        ("csv", {"at": pa.scalar(3 * 10**17, pa.timestamp("us"))}),
        ("lance", pa.MonthDayNano([1, 0, 0])),
    ],
)
def test_what_the_sink_has_no_form_for_is_named_and_not_tried_again(
    job: Job, kind: str, value: object
) -> None:
    sink = {"kind": kind, "path": job.spec.sink.path}
    job = replace(job, spec=parse_spec({**job.spec.model_dump(), "sink": sink}))
    with pytest.raises(SchemaMismatch, match=rf"sink\.kind {kind} cannot store {{'y': '\w+"):
        write_batches(job, [batch(0, value)])


@pytest.mark.parametrize("partition_by", [[], ["y"]])
def test_batches_may_have_categories_of_their_own(job: Job, partition_by: list[str]) -> None:
    def of_categories(first: int, names: list[str], index: pa.DataType) -> RowBatch:
        codes = pa.array(range(len(names)), index)
        ids = pa.array(range(first, first + len(names)), pa.int64())
        categories = pa.DictionaryArray.from_arrays(codes, pa.array(names))
        return RowBatch(pa.table({ROW: ids, "x": ids, "y": categories}))

    sink = {"kind": "parquet", "path": job.spec.sink.path, "partition_by": partition_by}
    job = replace(job, spec=parse_spec({**job.spec.model_dump(), "sink": sink}))
    first = [of_categories(row, [name], pa.int8()) for row, name in enumerate("ab")]
    many = of_categories(2, [str(number) for number in range(200)], pa.int16())
    records = [write_batches(job, first), write_batches(job, [many])]
    assert [len(record.ok) for record in records] == [2, 200]
    assert pinned(job.storage, job.run) == pa.schema([("x", pa.int64()), ("y", pa.string())])


def test_schemas_that_differ_in_metadata_have_digests_of_their_own() -> None:
    """To Arrow they are equal; records under one would count as those under another."""
    plain = pa.schema([pa.field("y", pa.string())])
    untyped = pa.schema([pa.field("y", pa.string(), metadata={"values": "none"})])
    assert plain == untyped
    assert digest(plain) != digest(untyped)


class Forgetful(dict[str, pa.Schema]):
    """Another job of this process begins, which clears it, whenever something was remembered."""

    def __setitem__(self, folder: str, schema: pa.Schema) -> None:
        """Nothing stays."""


def test_jobs_side_by_side_in_a_process_do_not_trip_each_other(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_schema, "KNOWN", Forgetful())
    records = [write_batches(job, [batch(row, 0.5)]) for row in (0, 1)]
    assert kept(job, records) == records
