"""What became of the process whose place a replica takes: Ray starts one anew and says no word."""

import ray
from ray._private.state import state
from ray._raylet import WorkerID
from ray.core.generated import common_pb2, gcs_pb2
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_put

from tasks.kinds.models.model import BatchLimit
from tasks.ray_job.job import Job

NAMESPACE = b"batch-inference-replicas"
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
    replica = f"{job.id}/{context.get_actor_id()}".encode()
    process = context.get_worker_id()
    former = _internal_kv_get(replica, namespace=NAMESPACE)
    if former is not None:
        its_process, its_halvings = former.decode().split()
        unchanged = limit.halvings == int(its_halvings) < MOST_HALVINGS
        if unchanged and has_run_out_of_memory(its_process):
            limit.halve(tried=1)  # over a batch of unknown size
    note = f"{process} {limit.halvings}".encode()
    _internal_kv_put(replica, note, overwrite=True, namespace=NAMESPACE)
    return former is not None


def forget_processes(job: Job) -> None:
    """The job is over; the head, which may run for months, would keep a note of each replica."""
    _internal_kv_del(f"{job.id}/".encode(), del_by_prefix=True, namespace=NAMESPACE)


def has_run_out_of_memory(process: str) -> bool:
    """Whether a process ended for want of its node's memory; only Ray's tables say so."""
    told = state._connect_and_get_accessor().get_worker_info(WorkerID.from_hex(process))
    if told is None:
        return False
    ended = gcs_pb2.WorkerTableData.FromString(told)
    return bool(ended.exit_type == common_pb2.WorkerExitType.NODE_OUT_OF_MEMORY)
