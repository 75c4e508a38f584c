"""What became of the process whose place a replica takes: Ray starts one anew and says no word."""

import ray
from ray._private.state import state
from ray._raylet import WorkerID
from ray.core.generated import common_pb2, gcs_pb2
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

NAMESPACE = b"batch-inference-replicas"


def was_killed_for_memory() -> bool:
    """Whether Ray killed this replica's former process since its node had no memory left.

    To be asked once in each process: it is then the former one.
    """
    context = ray.get_runtime_context()
    replica, process = context.get_actor_id().encode(), context.get_worker_id()
    former = _internal_kv_get(replica, namespace=NAMESPACE)
    _internal_kv_put(replica, process.encode(), overwrite=True, namespace=NAMESPACE)
    return former is not None and has_run_out_of_memory(former.decode())


def has_run_out_of_memory(process: str) -> bool:
    """Whether a process ended for want of its node's memory; only Ray's tables say so."""
    told = state._connect_and_get_accessor().get_worker_info(WorkerID.from_hex(process))
    if told is None:
        return False
    ended = gcs_pb2.WorkerTableData.FromString(told)
    return bool(ended.exit_type == common_pb2.WorkerExitType.NODE_OUT_OF_MEMORY)
