"""A job from its start to its result, by threads of this process or on Ray."""

import json
from typing import Any

from tasks.kinds.clusters import InlineCluster
from tasks.ray_job.job import Job
from tasks.ray_job.result import explain
from tasks.ray_job.stage_threads import StageThreads


def run(job: Job, stages: StageThreads | None = None) -> Exception | None:
    """Run a job and leave its result; return what went wrong.

    Args:
        job: what to do.
        stages: the threads of a job in this process, for whoever wants to halt it.
    """
    try:
        if isinstance(job.spec.cluster, InlineCluster):
            from tasks.ray_job.inline import run_inline

            run_inline(job, stages)
        else:
            from tasks.ray_job.connection import connected

            with connected(job):
                # Ray starts its first workers while this imports Ray Data.
                from tasks.ray_job.cluster import run_on_ray

                run_on_ray(job)
    except BaseException as error:
        leave(job, {"state": "failed", "error": explain(error)})
        if not isinstance(error, Exception):
            raise
        return error
    leave(job, {"state": "succeeded", "error": None})
    return None


def leave(job: Job, result: dict[str, Any]) -> None:
    """Store the result; it is the last thing a job writes.

    Where two have begun the same attempt at once, the first one's stays: each of them ends its own
    job by it, and that one would say that it was stopped.
    """
    if job.storage.stat(job.result_file) is not None:
        return
    body = {"attempt": job.attempt, "run_id": job.run_id, **result}
    job.storage.write(job.result_file, json.dumps(body).encode())
