"""Notes that workers leave with Ray's head, for whoever takes the place of one that has died.

They last as long as the head, which may run for months: who makes a job has them deleted with it.
"""

import json
from typing import Any

from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_list,
    _internal_kv_put,
)

from tasks.ray_job.job import Job

NAMESPACE = b"batch-inference"


def key_of(job: Job, what: str, *of: object) -> bytes:
    """Where a note is.

    Args:
        job: whose worker leaves it.
        what: it is about.
        of: what tells it from others of the kind, such as a replica's id.
    """
    return "/".join(map(str, (job.id, what, *of))).encode()


def noted(key: bytes) -> Any:
    """What was noted last, as JSON values; None where nothing was."""
    kept = _internal_kv_get(key, namespace=NAMESPACE)
    return None if kept is None else json.loads(kept)


def note(key: bytes, what: Any) -> None:
    """Note JSON values, in the place of those before."""
    _internal_kv_put(key, json.dumps(what).encode(), overwrite=True, namespace=NAMESPACE)


def keys_of(job: Job, what: str) -> list[bytes]:
    """Where the job's notes of a kind are."""
    found: list[bytes] = _internal_kv_list(key_of(job, what, ""), namespace=NAMESPACE)
    return found


def forget(key: bytes) -> None:
    """Delete a note."""
    _internal_kv_del(key, namespace=NAMESPACE)


def forget_all(job: Job) -> None:
    """The job is over: until then, a node that is lost may have anything done again."""
    _internal_kv_del(f"{job.id}/".encode(), del_by_prefix=True, namespace=NAMESPACE)
