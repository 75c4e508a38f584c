"""What became of the process whose place a replica takes: Ray starts one anew and says no word."""

import ray
from ray._private.state import state
from ray._raylet import WorkerID
from ray.core.generated import common_pb2, gcs_pb2

from tasks.kinds.models.batch_limit import BatchLimit
from tasks.ray_job.head_notes import key_of, note, noted
from tasks.ray_job.job import Job

MOST_HALVINGS = 6
"""Batches of a sixty-fourth: with fewer rows a kill has other reasons."""


def spare_memory(job: Job, limit: BatchLimit) -> bool:
    """Halve batches where Ray killed this replica's former process: its node had no memory left.

    Not where they have been halved since it began: several replicas may be killed for one reason.
    Nor for ever: what few rows do not help is the model's own memory, or somebody else's. To be
    called once in each process: the former one is then another.

    Returns:
        Whether there was a former process at all.
    """
    context = ray.get_runtime_context()
    replica = key_of(job, "replicas", context.get_actor_id())
    former = noted(replica)
    if former is not None:
        unchanged = limit.halvings == former["halvings"] < MOST_HALVINGS
        if unchanged and has_run_out_of_memory(former["process"]):
            limit.halve(tried=1)  # over a batch of unknown size
    note(replica, {"process": context.get_worker_id(), "halvings": limit.halvings})
    return former is not None


def has_run_out_of_memory(process: str) -> bool:
    """Whether a process ended for want of its node's memory; only Ray's tables say so."""
    told = state._connect_and_get_accessor().get_worker_info(WorkerID.from_hex(process))
    if told is None:
        return False
    ended = gcs_pb2.WorkerTableData.FromString(told)
    return bool(ended.exit_type == common_pb2.WorkerExitType.NODE_OUT_OF_MEMORY)
