"""A job from its start to its result, by threads of this process or on Ray."""

import json
import signal
from typing import Any

from tasks.errors import JobLost
from tasks.kinds.clusters import InlineCluster
from tasks.ray_job.job import Job
from tasks.ray_job.result import explain
from tasks.ray_job.stage_threads import StageThreads

ENDED = (
    "the job's driver was told to end, as by Ray's dashboard, `ray job stop`, or a machine that is "
    "shut down; to stop the run, use `batch-inference cancel`"
)


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
        told = JobLost(ENDED) if is_of_a_signal(error) else error
        leave(job, {"state": "failed", "error": explain(told)})
        if not isinstance(error, Exception):
            raise
        return error
    leave(job, {"state": "succeeded", "error": None})
    return None


def is_of_a_signal(error: BaseException) -> bool:
    """Whether an error is somebody's wish that this process ends, which Ray's handler raises.

    No code of a user's runs here that could: what threads of stages raise is of their stage.
    """
    by_ray = isinstance(error, SystemExit) and error.code == signal.SIGTERM
    return by_ray or isinstance(error, KeyboardInterrupt)


def leave(job: Job, result: dict[str, Any]) -> None:
    """Store the result; it is the last thing a job writes.

    Where two have begun the same attempt at once, the first one's stays: each of them ends its own
    job by it, and that one would say that it was stopped.
    """
    if job.storage.stat(job.result_file) is not None:
        return
    body = {"attempt": job.attempt, "run_id": job.run_id, **result}
    job.storage.write(job.result_file, json.dumps(body).encode())
