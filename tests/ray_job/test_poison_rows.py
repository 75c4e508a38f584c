"""Which rows a worker was at that died too often; that Ray's are told is in `tests/flows`."""

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from tasks.errors import OutOfMemory, StageFailed
from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.ids import row_id
from tasks.ray_job import head_notes, lost_device, poison_rows
from tasks.ray_job.adaptive_batching import Pace
from tasks.ray_job.job import Job
from tasks.ray_job.poison_rows import InHand, key_of, over_rows_in_hand
from tasks.ray_job.stage_adapter import StageAdapter
from tests.ray_job.test_own_machine import job_of, spec

ACTOR = "0123abcd"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """Stands for Ray's table of notes."""
    held: dict[bytes, bytes] = {}

    def delete(key: bytes, del_by_prefix: bool = False, namespace: bytes = b"") -> None:
        for each in [each for each in held if each == key or (del_by_prefix and key in each)]:
            del held[each]

    calls = {
        "get": lambda key, namespace: held.get(key),
        "put": lambda key, value, **_: held.update({key: value}),
        "list": lambda prefix, namespace: [each for each in held if each.startswith(prefix)],
        "del": delete,
    }
    context = SimpleNamespace(get_worker_id=lambda: "process", get_node_id=lambda: "node")
    monkeypatch.setattr("ray.get_runtime_context", lambda: context)
    for name, call in calls.items():
        monkeypatch.setattr(head_notes, f"_internal_kv_{name}", call)
    return held


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return job_of(spec(sink={"kind": "parquet", "path": str(tmp_path / "out")}))


def died() -> Any:
    """A replica that Ray names."""
    from ray.exceptions import ActorDiedError

    error = ActorDiedError()
    error.actor_id = ACTOR
    return error


def batch(shard: int = 3) -> RowBatch:
    """Rows 97 to 99 of one file, and 0 of the next."""
    ids = [*(row_id(shard, row) for row in (97, 98, 99)), row_id(shard + 1, 0)]
    rows = pa.table({ROW: pa.array(ids, pa.int64())})
    return RowBatch(rows, sources={each: f"/in/{each}" for each in (shard, shard + 1)})


@pytest.mark.usefixtures("table")
def test_a_replicas_last_call_is_told(job: Job) -> None:
    hand = InHand(key_of(job, ACTOR), "infer")
    hand.begin(batch())
    error = over_rows_in_hand(job, died())
    assert isinstance(error, StageFailed)
    assert (error.stage, error.source, error.row) == ("infer", "/in/3", 97)
    assert "most recently on 4 rows up to row 0 of /in/4: " in error.message
    stage = hand.noting(StageAdapter("infer", (lambda rows: rows,)))
    stage.functions[0](batch().rows.slice(1, 2))
    error = over_rows_in_hand(job, died())
    assert (error.source, error.row) == ("/in/3", 98)
    assert "most recently on 2 rows up to row 99: " in error.message


@pytest.mark.usefixtures("table")
def test_where_nothing_was_noted_the_stage_is_told(job: Job) -> None:
    """As of a replica that has died while it loaded its model."""
    InHand(key_of(job, "another"), "infer").begin(batch())
    error = over_rows_in_hand(job, died())
    assert (error.stage, error.source) == ("infer", None)
    assert error.message.startswith("ActorDiedError: The actor died unexpectedly")


def test_of_tasks_the_one_is_told_that_was_tried_most_often(
    job: Job, table: dict[bytes, bytes]
) -> None:
    """Others are done again as their node was lost, and come to their end."""
    from ray.exceptions import OutOfMemoryError, WorkerCrashedError

    once = InHand(key_of(job, "task-1"), "preprocess")
    thrice = InHand(key_of(job, "task-2"), "preprocess", tries=3)
    for hand, each in ((thrice, batch(5)), (once, batch(7))):
        hand.begin(each)
    for death, wanted in ((WorkerCrashedError(), StageFailed), (OutOfMemoryError(""), OutOfMemory)):
        error = over_rows_in_hand(job, death)
        assert type(error) is wanted
        assert (error.stage, error.source, error.row) == ("preprocess", "/in/5", 97)
    thrice.forget()
    assert over_rows_in_hand(job, WorkerCrashedError()).source == "/in/7"
    head_notes.forget_all(job)
    assert not table
    assert over_rows_in_hand(job, WorkerCrashedError()).stage is None


class Died(BaseException):
    """The process is gone."""


@pytest.mark.usefixtures("table")
def test_a_row_that_ends_its_process_alone_twice_is_set_aside(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process notes nothing: nobody pays for what seldom happens."""
    ids = [row_id(3, row) for row in range(50)]
    rows = RowBatch(pa.table({ROW: pa.array(ids, pa.int64()), "x": ids}), sources={3: "/in/3"})
    crashes = iter([False, True, True])  # asked of those that died over a single row
    monkeypatch.setattr(poison_rows, "has_crashed", lambda process, node: next(crashes))

    def predict(rows: pa.Table) -> pa.Table:
        if ids[23] in rows["x"].to_pylist():
            raise Died
        return rows

    def begin() -> list[RowBatch]:
        hand = InHand.of(key_of(job, ACTOR), "infer")
        hand.begin(rows)
        return list(hand.noting(StageAdapter("infer", (predict,)))(rows))

    told = []
    for _ in range(4):
        with pytest.raises(Died):
            begin()
        told.append(over_rows_in_hand(job, died()).row)
    assert told == [0, 23, 23, 23], "what went with its node does not count"
    (made,) = begin()
    assert made.ids.tolist() == [each for each in ids if each != ids[23]]
    assert [(each.row, each.error_type) for each in made.rejected] == [(23, "ProcessDied")]


ASSERTED = "CUDA error: device-side assert triggered"
"""What torch says; no test here has a GPU that would."""
LOST = f"its GPU accepted no more calls: RuntimeError: {ASSERTED}"


class Replicas:
    """One after the other, as Ray starts them; each ends where its device is lost."""

    def __init__(self, job: Job, rows: RowBatch, bad: set[int], size: int) -> None:
        self.key, self.rows, self.bad, self.size = key_of(job, ACTOR), rows, bad, size

    def run(self) -> list[RowBatch]:
        """What the next one makes of the batch.

        Raises:
            Died: it has ended its process.
            StageFailed: it has not.
        """
        is_lost = False

        def predict(rows: pa.Table) -> pa.Table:
            nonlocal is_lost
            is_lost |= bool(self.bad & set(rows["x"].to_pylist()))
            if is_lost:
                raise RuntimeError(f"{ASSERTED}\nCompile with `TORCH_USE_CUDA_DSA`")
            return rows

        hand = InHand.of(self.key, "infer")
        hand.begin(self.rows)
        stage = StageAdapter("infer", (predict,), pace=Pace.fixed(self.size), cuts_itself=False)
        try:
            return list(hand.noting(stage)(self.rows))
        except StageFailed as error:
            lost_device.end_if_device_is_lost(error, hand)
            raise

    def ended(self) -> tuple[int, list[RowBatch]]:
        """How many end their process, and what the next one makes of the batch; errors as `run`."""
        for died in range(5):
            with suppress(Died):
                return died, self.run()
        raise AssertionError("Ray starts no further one")


def replicas(job: Job, patch: pytest.MonkeyPatch, bad: set[int], size: int = 8) -> Replicas:
    def die(code: int) -> NoReturn:
        raise Died

    patch.setattr(poison_rows, "has_crashed", lambda process, node: True)
    patch.setattr("os._exit", die)
    ids = [row_id(3, row) for row in range(20)]
    rows = pa.table({ROW: pa.array(ids, pa.int64()), "x": range(20)})
    return Replicas(job, RowBatch(rows, sources={3: "/in/3"}), bad, size)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(("bad", "size"), [(10, 8), (8, 8), (0, 20), (19, 1)])
def test_a_row_that_costs_each_process_its_device_is_set_aside(
    bad: int, size: int, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these does some calls before; after that row it could do none."""
    died, made = replicas(job, monkeypatch, {bad}, size).ended()
    assert died == (2 if size == 1 else 3), "and a first one, which notes nothing"
    (aside,) = [row for each in made for row in each.rejected]
    assert (aside.row, aside.error_type) == (bad, "ProcessDied")
    assert f"it had only this row: {LOST} (test_poison_rows.py:" in aside.error_message
    assert sum(len(each.rows) for each in made) == 19


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("size", [1, 8, 20])
def test_a_device_that_fails_at_each_row_has_none_set_aside(
    size: int, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StageFailed, match=f"RuntimeError: {ASSERTED}") as raised:
        replicas(job, monkeypatch, {*range(20)}, size).ended()
    assert raised.value.stage == "infer"


@pytest.mark.usefixtures("table")
def test_what_cost_the_device_is_told_where_processes_end_again_and_again(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Died):
        replicas(job, monkeypatch, {3}).run()
    told = over_rows_in_hand(job, died()).message
    assert f"8 rows up to row 7 ({LOST} (test_poison_rows.py:" in told


@pytest.mark.usefixtures("table")
def test_a_head_that_is_away_sets_no_row_aside(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise RuntimeError("the head does not answer")

    monkeypatch.setattr(head_notes, "_internal_kv_put", away)
    hand = InHand(key_of(job, ACTOR), "infer")
    hand.begin(batch())
    (made,) = hand.noting(StageAdapter("infer", (lambda rows: rows,)))(batch())
    assert len(made.rows) == 4


@pytest.mark.parametrize(
    ("node", "killed", "crashed"),
    [("here", False, True), ("here", True, False), ("gone", False, False), ("new", False, False)],
)
def test_what_ends_with_its_node_or_for_want_of_memory_is_no_rows_fault(
    node: str, killed: bool, crashed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [{"NodeID": "here", "Alive": True}, {"NodeID": "gone", "Alive": False}]
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    monkeypatch.setattr(poison_rows, "has_run_out_of_memory", lambda process: killed)
    assert poison_rows.has_crashed("process", node) is crashed
