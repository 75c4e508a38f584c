"""A whole run over an object store: all of it in one bucket, without Ray or Prefect."""

import io
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InvalidSpec, OutputHeld, StaleLedger
from tasks.kinds.tables.delta import open_delta
from tasks.kinds.tables.lance import open_lance
from tasks.outputs import output_of
from tasks.plan import PlannedRun, make_plan
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ledger import Entry
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.publish import publish_planned
from tasks.run import left_to_do, next_attempt
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.object_stores import ObjectStore
from tests.s3_server import S3

OTHERS = ["azure", "google"]
STORES = [pytest.param("s3", marks=pytest.mark.s3), *OTHERS]
KINDS = [pytest.param("s3", kind, marks=pytest.mark.s3) for kind in ("parquet", "jsonl", "csv")]


@dataclass(frozen=True)
class Bucket:
    """Inputs and outputs of one test."""

    store: ObjectStore
    folder: str

    @property
    def storage(self) -> FsspecStorage:
        """A client of its own."""
        return open_storage(self.store.url(""), self.store.storage_options)[0]

    def put(self, name: str, values: list[float]) -> None:
        """Store an input: x and id are the values."""
        stream = io.BytesIO()
        pq.write_table(pa.table({"id": [int(v) for v in values], "x": values}), stream)
        self.storage.write(f"{self.store.bucket}/{self.folder}/in/{name}", stream.getvalue())

    def spec(
        self, source: str = "in", kind: str = "parquet", out: str = "out é #a"
    ) -> BatchInferenceSpec:
        """Doubles x."""
        options = self.store.storage_options
        folder = self.store.url(self.folder)
        place = {"path": f"{folder}/{source}", "storage_options": options}
        sink = {"kind": kind, "path": f"{folder}/{out}", "storage_options": options}
        return spec_of(Path(), source={"kind": "parquet", **place}, sink=sink)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> ObjectStore:
    """Each store in turn."""
    found: ObjectStore = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def bucket(store: ObjectStore) -> Bucket:
    """Two inputs of three rows each."""
    bucket = Bucket(store, uuid.uuid4().hex)
    bucket.put("a b=1/a #1.parquet", [0.0, 1.0, 2.0])
    bucket.put("b.parquet", [3.0, 4.0, 5.0])
    return bucket


def predict(planned: PlannedRun) -> int:
    """Do what is left to do, as far as publishing; return how many rows."""
    gap = left_to_do(planned, tried=False)
    attempt = next_attempt(planned, gap)
    attempt.ensure_started()
    while (result := attempt.look().result) is None:
        time.sleep(0.02)
    assert result["error"] is None, result["error"]
    progress = attempt.look().progress
    assert progress is not None
    rows: int = progress["stages"]["infer"]["rows"]
    assert not left_to_do(planned, tried=True)
    return rows


def published(spec: BatchInferenceSpec) -> list[dict[str, Any]]:
    """All published rows, by id."""
    storage, output = output_of(spec)
    files = [s.path for s in storage.list(output.path) if s.path.endswith(spec.sink.suffix)]
    rows = [row for file in files for row in spec.sink.decode(storage.read(file)).to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


def doubled(*values: int) -> list[dict[str, Any]]:
    return [{"id": v, "x": float(v), "doubled": 2.0 * v} for v in values]


@pytest.mark.parametrize(
    ("store", "kind"), [*KINDS, *((name, "parquet") for name in OTHERS)], indirect=["store"]
)
def test_a_run_is_published_once_and_a_changed_input_alone_again(bucket: Bucket, kind: str) -> None:
    spec = bucket.spec(kind=kind)
    first = make_plan(spec)
    assert (predict(first), publish_planned(first)) == (6, 1)
    assert published(spec) == doubled(0, 1, 2, 3, 4, 5)
    assert publish_planned(first) == 1

    again = make_plan(spec)
    assert (again.nothing_to_do, again.inputs_skipped) == (True, 2)

    bucket.put("b.parquet", [4.0, 7.0])
    changed = make_plan(spec)
    assert (changed.inputs_skipped, len(changed.plan.shards)) == (1, 1)
    assert (predict(changed), publish_planned(changed)) == (2, 2)
    assert published(spec) == doubled(0, 1, 2, 4, 7)
    assert make_plan(spec).nothing_to_do


@pytest.mark.parametrize("store", OTHERS, indirect=True)
@pytest.mark.parametrize("kind", ["delta", "lance"])
def test_tables_lie_there_too(bucket: Bucket, kind: str) -> None:
    spec = bucket.spec(kind=kind)
    for version in (1, 2):
        planned = make_plan(spec)
        predict(planned)
        assert publish_planned(planned) == version
        bucket.put("c.parquet", [6.0])
    place = (spec.sink.path, spec.sink.storage_options, None)
    rows = open_lance(*place).to_table() if kind == "lance" else pa.table(open_delta(*place).scan())
    assert sorted(rows["doubled"].to_pylist()) == [2.0 * value for value in range(7)]


def test_an_input_is_the_same_by_file_folder_and_glob(bucket: Bucket) -> None:
    first = make_plan(bucket.spec())
    predict(first)
    publish_planned(first)
    for source in ("in/b.parquet", "in/*.parquet", "in/**/*.parquet"):
        assert make_plan(bucket.spec(source)).nothing_to_do, source


def plan_both(bucket: Bucket, source: str, other: str) -> tuple[PlannedRun, PlannedRun]:
    """Two runs that were planned at once, and predicted."""
    both = (
        make_plan(bucket.spec(source), save=False),
        make_plan(bucket.spec(other), save=False),
    )
    for planned in both:
        predict(planned)
    return both


def test_who_comes_second_with_the_same_inputs_publishes_nothing(bucket: Bucket) -> None:
    one, other = plan_both(bucket, "in", "in/b.parquet")
    assert publish_planned(one) == 1
    with pytest.raises(OutputHeld, match="has published"):
        publish_planned(other)
    assert published(one.spec) == doubled(0, 1, 2, 3, 4, 5)


def test_two_who_publish_other_inputs_at_once_both_do(bucket: Bucket) -> None:
    both = plan_both(bucket, "in/a*", "in/b.parquet")
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(publish_planned, both)) == [1, 2]
    assert published(both[0].spec) == doubled(0, 1, 2, 3, 4, 5)


def test_outputs_whose_names_differ_after_a_mark_have_ledgers_of_their_own(bucket: Bucket) -> None:
    for out in ("out#a", "out#b", "out?a"):
        planned = make_plan(bucket.spec(out=out))
        assert (predict(planned), publish_planned(planned)) == (6, 1)
    folder = f"{bucket.store.bucket}/{bucket.folder}"
    assert bucket.storage.list(f"{folder}/out") == []
    assert bucket.storage.list(f"{folder}/out#a.state/ledger/_delta_log")


def test_an_output_whose_ledger_could_not_be_kept_is_refused(bucket: Bucket) -> None:
    with pytest.raises(InvalidSpec, match=r"sink\.path: .*%20.*rename the folder"):
        make_plan(bucket.spec(out="out%201"))


def entry(key: str) -> Entry:
    """An entry without inputs or files."""
    names = {"path": pa.string(), "identity": pa.string(), "shard": pa.int64()}
    inputs = pa.table({name: pa.array([], kind) for name, kind in names.items()})
    return Entry(key, f"run-{key}", inputs)


Open = Callable[[], DeltaLedger]


@pytest.fixture(params=[*STORES, pytest.param("s3's environment", marks=pytest.mark.s3)])
def ledger(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens the same ledger again and again; S3's endpoint comes one way or the other."""
    name, _, is_set = request.param.partition("'s ")
    store: ObjectStore = request.getfixturevalue(name)
    url = store.url(f"{uuid.uuid4().hex}/out é.state/ledger")
    if not is_set:
        return lambda: DeltaLedger(url, dict(store.storage_options))
    assert isinstance(store, S3)
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint_url)
    return lambda: DeltaLedger(url)


def test_a_ledger_made_by_many_at_once_is_made_once(ledger: Open) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: each.create(), [ledger() for _ in range(4)]))
    assert ledger().look().version == 0
    assert ledger().commit(entry("k1"), ledger().look()) == 1


def test_of_two_publishers_one_is_stale(ledger: Open) -> None:
    one, other = ledger(), ledger()
    seen_by_one, seen_by_other = one.look(), other.look()
    assert one.commit(entry("k1"), seen_by_one) == 1
    with pytest.raises(StaleLedger):
        other.commit(entry("k2"), seen_by_other)
    seen_by_one, seen_by_other = one.look(), other.look()
    assert other.commit(entry("k2"), seen_by_other) == 2
    with pytest.raises(StaleLedger):
        one.commit(entry("k3"), seen_by_one)
    assert [each["run_key"] for each in ledger().look().entries.values()] == ["k1", "k2"]
