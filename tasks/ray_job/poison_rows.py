"""Which rows a process had in hand when it died, again: one of them may end it each time."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import ray
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayError, WorkerCrashedError
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_list,
    _internal_kv_put,
)

from tasks.counted import counted
from tasks.errors import BatchInferenceError
from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.ids import Ids
from tasks.ray_job.blame import Function, concatenated
from tasks.ray_job.job import Job
from tasks.ray_job.killed_replica import has_run_out_of_memory
from tasks.ray_job.parents import cut
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.ray_job.stage_error import stage_error

NAMESPACE = b"batch-inference-in-hand"
DEATHS = (ActorDiedError, WorkerCrashedError, OutOfMemoryError)
"""What Ray raises once a worker's process has died too often."""
DEATHS_ALONE = 2
"""With a single row in hand, before that is set aside."""
GUILTY = "a worker's process died with this row alone in hand, twice: "
CRASHED = "native code crashed over it, or the system ended the process for the memory that it took"
LOST = "its GPU took no call any more: "


class ProcessDied(Exception):
    """A row has ended its process."""


@dataclass
class InHand:
    """Notes what a worker begins with, call by call; only where its process has died before."""

    key: bytes
    stage: str
    tries: int = 1
    """How often a process before this one has died."""
    suspects: tuple[int, int] | None = None
    """The first and the last row that the one before was at, by id; None: nobody knows."""
    alone: int = 0
    """How often in a row one was at the same single row when it crashed."""
    lost: str = ""
    """What the device said that ended the one before; empty: it ended otherwise."""
    guilty: dict[int, str] = field(default_factory=dict)
    """Rows that are not tried again, each with what is known of why."""
    batch: RowBatch | None = None
    ids: Ids | None = None
    """Rows of the call that was noted last."""
    came_through: bool = False
    """Whether this process has come to the end of a call of the model."""

    @classmethod
    def of(cls, key: bytes, stage: str) -> "InHand":
        """What is known of a worker by what was noted before."""
        noted = _internal_kv_get(key, namespace=NAMESPACE)
        if noted is None:
            return cls(key, stage)
        tries, pairs, alone, process, node, first, last, lost, *_ = json.loads(noted)
        alone = alone + 1 if first == last and has_crashed(process, node) else 0
        guilty = dict(pairs)
        if alone == DEATHS_ALONE:
            guilty[first] = f"{LOST}{lost}" if lost else CRASHED
        return cls(key, stage, tries + 1, (first, last), alone, lost, guilty)

    @classmethod
    def of_this_replica(cls, job: Job) -> "InHand":
        """Of the replica that this process is."""
        return cls.of(key_of(job, ray.get_runtime_context().get_actor_id()), "infer")

    @classmethod
    def of_this_task(cls, job: Job, stage: str) -> "InHand | None":
        """Of the task that this process is at, where that is done again; else None."""
        tries = ray._private.worker.global_worker.core_worker.get_current_task_attempt_number()
        task = ray.get_runtime_context().get_task_id()
        return cls.of(key_of(job, task), stage) if tries else None

    def begin(self, batch: RowBatch) -> None:
        """A batch is begun, perhaps with preprocessing."""
        self.batch = batch
        self.note(batch.ids)

    def noting(self, stage: StageAdapter) -> StageAdapter:
        """The stage, each of whose calls is noted before it is made."""
        is_model = stage.stage == "infer"
        noted = (self.noted(each, is_model) for each in stage.functions)
        return replace(stage, functions=tuple(noted))

    def noted(self, function: Function, is_model: bool) -> Function:
        """The same for one of its functions.

        To whoever looks for the row that is to blame, a guilty one fails alone, too.
        """

        def call(rows: pa.Table) -> pa.Table:
            for each in rows[ROW].to_pylist() if self.guilty else ():
                if each in self.guilty:
                    raise ProcessDied(GUILTY + self.guilty[each])
            parts = [*self.parts(rows)]
            made: dict[int, pa.Table] = {}
            for at in self.order([each[ROW].to_numpy() for each in parts]):
                self.note(parts[at][ROW].to_numpy())
                made[at] = function(parts[at])
                self.came_through |= is_model
            return concatenated([made[at] for at in range(len(parts))])

        return call

    def order(self, parts: list[Ids]) -> list[int]:
        """Which part comes when: as they are, but for one that shows what a device can do.

        Where one has failed before, a suspect comes after another row: if that comes through, the
        device is sound, and the suspect to blame.
        """
        innocent = 0
        if self.lost and not self.came_through:
            others = (at for at, ids in enumerate(parts) if not self.has_suspects(ids))
            innocent = next(others, 0)
        return sorted(range(len(parts)), key=lambda at: at != innocent)

    def parts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Rows as they are, or one by one where the process before has died over them."""
        size = 1 if self.has_suspects(rows[ROW].to_numpy()) else len(rows)
        part, rows = cut(rows, size)
        yield part
        while len(rows):
            part, rows = cut(rows, size)
            yield part

    def has_suspects(self, ids: Ids) -> bool:
        """Whether any of these rows is among those that the process before was at."""
        if self.suspects is None:
            return False
        first, last = self.suspects
        return bool(((ids >= first) & (ids <= last)).any())

    @property
    def is_device_broken(self) -> bool:
        """Whether a lost device is not the suspect's fault, or cannot be shown to be.

        It was lost over a row alone before, and takes no other one first.
        """
        return bool(self.lost and self.alone) and not self.came_through

    def note_loss(self, lost: str) -> None:
        """Say of the rows noted last what the device says that ends this process over them."""
        if self.ids is not None:
            self.note(self.ids, lost)

    def note(self, ids: Ids, lost: str = "") -> None:
        """Say which rows, where the driver finds it."""
        self.ids = ids
        if len(ids) and self.batch:
            first, last = (self.batch.where(int(ids[at])) for at in (0, -1))
            at = int(ids[0]), int(ids[-1])
            alone = self.alone if at == self.suspects else 0
            context = ray.get_runtime_context()
            where = [context.get_worker_id(), context.get_node_id()]
            so_far = [self.tries, [*self.guilty.items()], alone, *where, *at, lost]
            noted = json.dumps([*so_far, self.stage, len(ids), *first, *last]).encode()
            with suppress(Exception):  # no row is to blame for a head that is away
                _internal_kv_put(self.key, noted, overwrite=True, namespace=NAMESPACE)

    def forget(self) -> None:
        """The task has come to its end."""
        _internal_kv_del(self.key, namespace=NAMESPACE)


def has_crashed(process: str, node: str) -> bool:
    """Whether a process ended by itself: its node lives, and had memory for it.

    What a node has too little memory for may be others' fault.
    """
    alive = {each["NodeID"] for each in ray.nodes() if each["Alive"]}
    return node in alive and not has_run_out_of_memory(process)


def key_of(job: Job, worker: str | None) -> bytes:
    """Where a replica's or task's note is."""
    return f"{job.id}/{worker}".encode()


def over_rows_in_hand(job: Job, error: RayError) -> BatchInferenceError:
    """What a process that died too often has ended a job with: with the rows that it was at."""
    known, noted = stage_error(error), None
    with suppress(Exception):  # what ended the job is to be heard
        noted = last_noted(job, error)
    if noted is None:
        return known.locate("infer") if isinstance(error, ActorDiedError) else known
    *_, lost, stage, rows, source, row, last_source, last_row = noted
    to = f" up to row {last_row}" if rows > 1 else ""
    to += f" of {last_source}" if last_source != source else ""
    to += f" ({LOST}{lost})" if lost else ""
    return type(known)(
        f"a worker's process died again and again, at last over {counted(rows, 'row')}"
        f"{to}: where one of them breaks native code, leave it out by a step or its file by "
        f"source.exclude; where they take too much memory, ask for more; {known.message}"
    ).locate(stage, source, row)


def last_noted(job: Job, error: RayError) -> list[Any] | None:
    """The note of the replica that an error names, else of the task that was tried most often."""
    keys: list[bytes] = _internal_kv_list(f"{job.id}/".encode(), namespace=NAMESPACE)
    if isinstance(error, ActorDiedError):
        keys = [key_of(job, error.actor_id)]
    found = (_internal_kv_get(key, namespace=NAMESPACE) for key in keys)
    notes: list[list[Any]] = [json.loads(each) for each in found if each]
    return max(notes, key=lambda note: note[0], default=None)


def forget_all(job: Job) -> None:
    """The job is over."""
    _internal_kv_del(f"{job.id}/".encode(), del_by_prefix=True, namespace=NAMESPACE)
