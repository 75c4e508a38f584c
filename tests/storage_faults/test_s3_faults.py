"""Whole runs over a store that fails: no row is lost or doubled, and the message says why."""

import asyncio
import io
import re
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tasks.errors import BatchInferenceError, InvalidSpec, Unreachable
from tasks.plan import make_plan
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.publish import publish_planned
from tasks.published import published_rows, rows_set_aside
from tasks.run import left_to_do
from tasks.spec import BatchInferenceSpec
from tasks.spec_parts import Timeouts
from tasks.timeouts import storage_of_output
from tests.flows.conftest import spec_of
from tests.reporting import run_attempt
from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import Behave, Fault, FaultyS3, Request, faulty_s3

pytestmark = pytest.mark.s3
FILES, ROWS = 2, 400
ALL = [float(value) for value in range(FILES * ROWS)]


@dataclass(frozen=True)
class Place:
    """Inputs and outputs of a test, behind a proxy."""

    proxy: FaultyS3
    bucket: str
    folder: str

    @property
    def options(self) -> dict[str, object]:
        """Those of the proxy; few tries, so that a fault that lasts shows soon."""
        retries = {"retries": {"max_attempts": 2, "mode": "standard"}}
        return {"endpoint_url": self.proxy.endpoint_url, "config_kwargs": retries}

    @property
    def storage(self) -> FsspecStorage:
        """A client that goes past the proxy."""
        return open_storage(f"s3://{self.bucket}", {"endpoint_url": self.proxy.target})[0]

    def put(self, name: str, first: int, rows: int = ROWS) -> None:
        """Store an input."""
        values = list(range(first, first + rows))
        stream = io.BytesIO()
        pq.write_table(pa.table({"id": values, "x": [float(v) for v in values]}), stream)
        self.storage.write(f"{self.bucket}/{self.folder}/in/{name}", stream.getvalue())

    @property
    def spec(self) -> BatchInferenceSpec:
        """Doubles x."""
        url = f"s3://{self.bucket}/{self.folder}"
        source = {"kind": "parquet", "path": f"{url}/in", "storage_options": self.options}
        sink = {"kind": "parquet", "path": f"{url}/out", "storage_options": self.options}
        stages = {"read": {"rows_per_batch": 200, "max_workers": 1}, "write": {"max_workers": 1}}
        return spec_of(Path(), source=source, sink=sink, stages=stages)

    def run(self) -> None:
        """Plan, predict, publish."""
        planned = make_plan(self.spec)
        if not planned.nothing_to_do:
            run_attempt(planned)
            publish_planned(planned)

    def published(self) -> list[float]:
        """The rows that readers see, without faults."""
        self.proxy.behave = lambda request: None
        assert rows_set_aside(self.spec) == [], "no row is to blame for a store that fails"
        rows = published_rows(self.spec)
        return sorted(rows["x"].to_pylist()) if len(rows) else []


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients ask again, and jobs are looked at, sooner than they would be."""
    hurried = {**vars(asyncio), "sleep": lambda seconds: asyncio.sleep(seconds / 50)}
    for module in ("s3fs.core", "aiobotocore.endpoint"):
        monkeypatch.setattr(f"{module}.asyncio", SimpleNamespace(**hurried))
    monkeypatch.setattr("tasks.attempt.POLL_SECONDS", (0.01, 0.05))


@pytest.fixture
def place(s3: S3) -> Iterator[Place]:
    """Two inputs."""
    with faulty_s3(s3.endpoint_url) as proxy:
        place = Place(proxy, s3.bucket, uuid.uuid4().hex)
        for number in range(FILES):
            place.put(f"{number}.parquet", number * ROWS)
        yield place


@pytest.mark.parametrize("fault", [Fault(503, "SlowDown"), Fault(403, "AccessDenied")])
def test_a_checkpoint_that_the_store_does_not_give_is_no_damaged_one(
    place: Place, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """Deltalake says of both that it is an error of Arrow's."""
    place.run()
    past = DeltaLedger(
        f"s3://{place.bucket}/{place.folder}/out.state/ledger",
        {"endpoint_url": place.proxy.target},
    )
    DeltaTable(past.url, storage_options=past.options).create_checkpoint()
    quick = {"max_retries": "0", "retry_timeout": "1s"}
    ledger = DeltaLedger(past.url, {"endpoint_url": place.proxy.endpoint_url})
    ledger.options |= quick
    place.proxy.behave = always(fault, "GET", r"checkpoint\.parquet")
    with pytest.raises(Unreachable), storage_of_output():
        ledger.look()
    assert place.proxy.faults
    place.proxy.behave = lambda request: None
    assert ledger.look().version == past.look().version


def always(fault: Fault, method: str, path: str) -> Behave:
    """Requests of a kind fail."""

    def behave(asked: Request) -> Fault | None:
        return fault if asked.method in method.split("|") and re.search(path, asked.path) else None

    return behave


PASSING = [
    Fault(500, "InternalError"),
    Fault(503, "SlowDown"),
    Fault(429, "TooMany"),
    Fault(cut=True),
    Fault(pause_seconds=0.02),
]


def test_what_passes_is_not_noticed(place: Place) -> None:
    faults = iter(PASSING)

    def behave(asked: Request) -> Fault | None:
        is_data = asked.method == "GET" and re.search(r"in/\d", asked.path)
        return next(faults, None) if is_data else None

    place.proxy.behave = behave
    place.run()
    assert place.proxy.faults == len(PASSING)
    assert place.published() == ALL


def test_a_store_that_asks_to_be_asked_later_is(place: Place) -> None:
    """Every kind of request is answered 429 once, with a word that no client knows."""
    place.proxy.behave = lambda asked: Fault(429, "TooMany") if asked.number == 0 else None
    place.run()
    assert place.proxy.faults > 10
    assert place.published() == ALL


def test_what_is_done_and_whose_answer_is_lost_is_not_noticed(place: Place) -> None:
    """The first answer to each request that changes something."""
    lost = Fault(500, "InternalError", is_late=True)
    behave = always(lost, "PUT|POST|DELETE", "")
    place.proxy.behave = lambda asked: behave(asked) if asked.number == 0 else None
    place.run()
    assert place.proxy.faults
    assert place.published() == ALL
    assert make_plan(place.spec).nothing_to_do


LASTING = {
    "input 429": (always(Fault(429, "TooMany"), "GET", r"in/1"), r"in/1\.parquet"),
    "input cut off": (always(Fault(cut=True), "GET", r"in/1"), r"in/1\.parquet"),
    "output 500": (always(Fault(500, "InternalError"), "PUT", "staging"), "staging|out"),
}


@pytest.mark.parametrize(("behave", "message"), LASTING.values(), ids=LASTING.keys())
def test_what_lasts_is_said_and_the_next_run_goes_on(
    place: Place, behave: Behave, message: str
) -> None:
    place.proxy.behave = behave
    with pytest.raises(BatchInferenceError, match=message) as caught:
        place.run()
    assert caught.value.can_retry
    assert place.published() == []
    place.run()
    assert place.published() == ALL


@pytest.mark.parametrize("path", [r"_delta_log/0+1\.json", "/out/part-", r"\.state/applied"])
def test_a_store_that_refuses_in_the_middle_of_publishing_loses_nothing(
    place: Place, path: str
) -> None:
    planned = make_plan(place.spec)
    run_attempt(planned)
    place.proxy.behave = always(Fault(403, "AccessDenied"), "PUT", path)
    with pytest.raises(OSError, match="AccessDenied"):
        publish_planned(planned)
    assert place.proxy.faults
    place.proxy.behave = lambda asked: None
    place.run()
    assert place.published() == ALL
    assert make_plan(place.spec).nothing_to_do


REFUSED = {
    "state": ("PUT", r"out\.state/ledger\.probe-[0-9a-f]+$", r"put files into .*/out\.state: "),
    "by deltalake": ("PUT", r"_delta_log", r"create a table \(the ledger\) in .*/out\.state: "),
    "rows": ("PUT", r"/out/", r"put files into .*/out: "),
    "deletions": ("DELETE|POST", "", r"delete files in .*/out and in .*/out\.state: "),
}


@pytest.mark.parametrize(("method", "path", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_run_may_not_do_at_its_output_is_told_before_anything_starts(
    place: Place, method: str, path: str, told: str
) -> None:
    place.proxy.behave = always(Fault(403, "AccessDenied"), method, path)
    with pytest.raises(Unreachable, match=rf"^sink\.path: .* allow this user to {told}"):
        make_plan(place.spec)
    assert place.proxy.faults


def test_to_try_an_output_leaves_nothing_there(place: Place) -> None:
    make_plan(place.spec)
    names = [stat.path for stat in place.storage.list(f"{place.bucket}/{place.folder}")]
    assert not [name for name in names if "probe" in name]


def test_expired_credentials_are_told_before_anything_starts(place: Place) -> None:
    place.proxy.behave = lambda asked: Fault(400, "ExpiredToken")
    with pytest.raises(Unreachable, match=r"cannot be reached.*the credentials in"):
        place.run()


def test_inputs_that_may_be_listed_and_not_read_are_told_before_anything_starts(
    place: Place,
) -> None:
    place.proxy.behave = always(Fault(403, "AccessDenied"), "HEAD|GET", r"in/0\.parquet")
    path = rf"{place.bucket}/{place.folder}/in/0\.parquet"
    told = rf"^source\.path: '{path}' cannot be accessed by this user \(.*\): check the credentials"
    with pytest.raises(Unreachable, match=told):
        make_plan(place.spec)


def test_a_ledger_that_is_refused_is_told_before_anything_starts(place: Place) -> None:
    place.proxy.behave = always(Fault(403, "AccessDenied"), "GET", r"_delta_log|ledger")
    with pytest.raises(Unreachable, match=r"^sink\.path: the storage does not answer, or .*"):
        make_plan(place.spec)


# The job cannot even write down why it failed; a process would end with the same traceback.
@pytest.mark.filterwarnings("ignore:Exception in thread job-")
@pytest.mark.parametrize(("method", "path"), [("GET", r"in/1\.parquet"), ("PUT", "records")])
def test_credentials_that_expire_in_mid_run_are_named_and_the_next_run_goes_on(
    place: Place, method: str, path: str
) -> None:
    asked = place.spec.model_copy(update={"timeouts": Timeouts(unreachable_seconds=1)})
    planned = make_plan(asked)
    expired = threading.Event()

    def behave(asked: Request) -> Fault | None:
        if asked.method == method and re.search(path, asked.path):
            expired.set()
        return Fault(400, "ExpiredToken") if expired.is_set() else None

    place.proxy.behave = behave
    with pytest.raises(BatchInferenceError, match=r"credentials|ExpiredToken") as caught:
        run_attempt(planned)
    assert caught.value.can_retry
    assert place.published() == []
    place.run()
    assert place.published() == ALL


def test_an_input_that_a_listing_hides_is_done_by_the_next_run(place: Place) -> None:
    place.proxy.behave = always(Fault(omit=r"in/1\.parquet"), "GET", "list-type")
    place.run()
    assert place.published() == ALL[:ROWS]
    place.run()
    assert place.published() == ALL
    assert make_plan(place.spec).nothing_to_do


def test_a_listing_that_omits_a_record_costs_work_and_no_row(place: Place) -> None:
    planned = make_plan(place.spec)
    run_attempt(planned)
    records = place.storage.list(planned.run.records)
    hidden = re.escape(records[0].path.rsplit("/", 1)[-1])
    place.proxy.behave = always(Fault(omit=hidden), "GET", "list-type")
    place.run()
    assert place.published() == ALL


def test_a_listing_that_omits_what_a_writer_has_just_pinned_stops_no_job(place: Place) -> None:
    planned = make_plan(place.spec)
    place.proxy.behave = always(Fault(omit="/schemas/"), "GET", "list-type")
    run_attempt(planned)
    assert place.proxy.faults
    place.proxy.behave = lambda asked: None
    assert not left_to_do(planned, tried=True), "all that was recorded counts"
    publish_planned(planned)
    assert place.published() == ALL


def test_an_input_that_is_rewritten_after_the_plan_is_not_mixed(place: Place) -> None:
    planned = make_plan(place.spec)
    place.put("1.parquet", ROWS, rows=10)
    with pytest.raises(
        BatchInferenceError, match=r"in/1\.parquet.*rewritten after the run was planned"
    ):
        run_attempt(planned)
    place.run()
    assert place.published() == ALL[: ROWS + 10]


def test_an_input_that_vanishes_after_the_plan_is_named(place: Place) -> None:
    planned = make_plan(place.spec)
    place.storage.delete(f"{place.bucket}/{place.folder}/in/1.parquet")
    with pytest.raises(BatchInferenceError, match=r"in/1\.parquet.*(is gone|rewritten)"):
        run_attempt(planned)
    place.run()
    assert place.published() == ALL[:ROWS]


def test_a_store_where_two_commits_both_win_is_refused(place: Place) -> None:
    place.proxy.behave = lambda asked: Fault(drop_header="If-None-Match")
    with pytest.raises(
        InvalidSpec, match=r"sink\.path: .*accepts two commits from the same version"
    ):
        make_plan(place.spec)
    assert place.storage.list(f"{place.bucket}/{place.folder}/out.state") == []


def test_a_store_that_takes_no_conditional_put_is_refused_as_that(place: Place) -> None:
    """To wait for it, or to look for room or rights there, is no help."""
    behave = always(Fault(501, "NotImplemented"), "PUT", r"\.probe-[0-9a-f]+$")
    place.proxy.behave = lambda asked: behave(asked) if asked.number else None
    with pytest.raises(InvalidSpec, match=r"^sink\.path: .* without conditional puts \(If-None-M"):
        make_plan(place.spec)
    assert place.storage.list(f"{place.bucket}/{place.folder}/out.state") == []
