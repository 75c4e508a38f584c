"""Which rows a replica had in hand when its process died: one of them may end it, each time."""

import json
from dataclasses import dataclass, replace

import pyarrow as pa
import ray
from ray.exceptions import ActorDiedError
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

from tasks.counted import counted
from tasks.errors import StageFailed
from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.ids import Ids
from tasks.ray_job.blame import Function
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.ray_job.stage_error import describe

NAMESPACE = b"batch-inference-in-hand"


@dataclass
class InHand:
    """Notes what a replica begins with, call by call; only where its process has died before."""

    replica: bytes
    batch: RowBatch | None = None

    @classmethod
    def of_this_replica(cls) -> "InHand":
        """Those of the replica that this process is."""
        return cls(ray.get_runtime_context().get_actor_id().encode())

    def begin(self, batch: RowBatch) -> None:
        """A batch is begun, perhaps with preprocessing."""
        self.batch = batch
        self.note(batch.ids)

    def noting(self, stage: StageAdapter) -> StageAdapter:
        """The stage, each of whose calls is noted before it is made."""
        return replace(stage, functions=tuple(map(self.noted, stage.functions)))

    def noted(self, function: Function) -> Function:
        """The same for one of its functions."""

        def call(rows: pa.Table) -> pa.Table:
            self.note(rows[ROW].to_numpy())
            return function(rows)

        return call

    def note(self, ids: Ids) -> None:
        """Say which rows, where the driver finds it."""
        if len(ids) and self.batch:
            first, last = (self.batch.where(int(ids[at])) for at in (0, -1))
            noted = json.dumps([len(ids), *first, *last]).encode()
            _internal_kv_put(self.replica, noted, overwrite=True, namespace=NAMESPACE)


def over_rows_in_hand(error: ActorDiedError) -> StageFailed:
    """What a replica has ended a job with that died too often: with the rows that it was at."""
    noted = _internal_kv_get((error.actor_id or "").encode(), namespace=NAMESPACE)
    if noted is None:
        return StageFailed(describe(error)).locate("infer")
    rows, source, row, last_source, last_row = json.loads(noted)
    to = f"row {last_row}" + (f" of {last_source}" if last_source != source else "")
    return StageFailed(
        f"a replica's process died again and again, at last over {counted(rows, 'row')} up to "
        f"{to}: where one of them breaks native code, leave it out by a step or its file by "
        f"source.exclude; where they take too much memory, ask for more; {describe(error)}"
    ).locate("infer", source, row)
