"""Which rows a process had in hand when it died, again: one of them may end it each time."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

import pyarrow as pa
import ray
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayError, WorkerCrashedError

from tasks.counted import counted
from tasks.errors import BatchInferenceError
from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.ids import Ids
from tasks.ray_job import head_notes
from tasks.ray_job.blame import Function, concatenated
from tasks.ray_job.job import Job
from tasks.ray_job.killed_replica import has_run_out_of_memory
from tasks.ray_job.parents import cut
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.ray_job.stage_error import stage_error

DEATHS = (ActorDiedError, WorkerCrashedError, OutOfMemoryError)
"""What Ray raises once a worker's process has died too often."""
DEATHS_ALONE = 2
"""With a single row in hand, before that is set aside."""
GUILTY = "a worker's process died twice while it had only this row: "
CRASHED = "native code crashed on it, or the system killed the process for using too much memory"
LOST = "its GPU accepted no more calls: "


class ProcessDied(Exception):
    """A row has ended its process."""


@dataclass(frozen=True)
class Note:
    """What a worker begins with, as Ray's head keeps it for whoever comes after its death."""

    stage: str
    rows: int
    """Of the call, of which the first and the last are told."""
    first: int
    last: int
    """Their ids."""
    source: str
    row: int
    last_source: str
    last_row: int
    """Where both come from: files, and the rows in these."""
    process: str
    """Ray's id of the worker's process, and of its node."""
    node: str
    tries: int
    """How often a process before this one has died."""
    alone: int
    """How often in a row one was at this single row when it crashed."""
    guilty: list[tuple[int, str]]
    """Ids of rows that are not tried again, each with what is known of why."""
    lost: str
    """What the device said that ends this process; empty while it has said nothing."""

    @classmethod
    def found(cls, key: bytes) -> "Note | None":
        """What a worker has noted last; None where it has noted nothing."""
        known = head_notes.noted(key)
        return cls(**known) if known else None

    def keep(self, key: bytes) -> None:
        """Leave it with Ray's head, in the place of the one before."""
        head_notes.note(key, asdict(self))


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
        note = Note.found(key)
        if note is None:
            return cls(key, stage)
        is_alone = note.first == note.last
        alone = note.alone + 1 if is_alone and has_crashed(note.process, note.node) else 0
        guilty = dict(note.guilty)
        if alone == DEATHS_ALONE:
            guilty[note.first] = f"{LOST}{note.lost}" if note.lost else CRASHED
        suspects = note.first, note.last
        return cls(key, stage, note.tries + 1, suspects, alone, note.lost, guilty)

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
        if not len(ids) or not self.batch:
            return
        first, last = int(ids[0]), int(ids[-1])
        source, row = self.batch.where(first)
        last_source, last_row = self.batch.where(last)
        context = ray.get_runtime_context()
        note = Note(
            stage=self.stage,
            rows=len(ids),
            first=first,
            last=last,
            source=source,
            row=row,
            last_source=last_source,
            last_row=last_row,
            process=context.get_worker_id(),
            node=context.get_node_id(),
            tries=self.tries,
            alone=self.alone if (first, last) == self.suspects else 0,
            guilty=[*self.guilty.items()],
            lost=lost,
        )
        with suppress(Exception):  # no row is to blame for a head that is away
            note.keep(self.key)

    def forget(self) -> None:
        """The task has come to its end."""
        head_notes.forget(self.key)


def has_crashed(process: str, node: str) -> bool:
    """Whether a process ended by itself: its node lives, and had memory for it.

    What a node has too little memory for may be others' fault.
    """
    alive = {each["NodeID"] for each in ray.nodes() if each["Alive"]}
    return node in alive and not has_run_out_of_memory(process)


def key_of(job: Job, worker: str | None) -> bytes:
    """Where a replica's or task's note is."""
    return head_notes.key_of(job, "in-hand", worker)


def over_rows_in_hand(job: Job, error: RayError) -> BatchInferenceError:
    """What a process that died too often has ended a job with: with the rows that it was at."""
    known, note = stage_error(error), None
    with suppress(Exception):  # what ended the job is to be heard
        note = last_note(job, error)
    if note is None:
        return known.locate("infer") if isinstance(error, ActorDiedError) else known
    to = f" up to row {note.last_row}" if note.rows > 1 else ""
    to += f" of {note.last_source}" if note.last_source != note.source else ""
    to += f" ({LOST}{note.lost})" if note.lost else ""
    return type(known)(
        f"a worker's process died repeatedly, most recently on {counted(note.rows, 'row')}{to}: "
        "if one of them crashes native code, leave it out in a step or its file with "
        f"source.exclude; if they take too much memory, ask for more; {known.message}"
    ).locate(note.stage, note.source, note.row)


def last_note(job: Job, error: RayError) -> Note | None:
    """The note of the replica that an error names, else of the task that was tried most often."""
    is_replica = isinstance(error, ActorDiedError)
    keys = [key_of(job, error.actor_id)] if is_replica else head_notes.keys_of(job, "in-hand")
    notes = [note for note in map(Note.found, keys) if note]
    return max(notes, key=lambda note: note.tries, default=None)
