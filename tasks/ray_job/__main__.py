"""The driver: a job file in, a result out, exit code 0 where it succeeded."""

import json
import os
import sys
import traceback
from typing import Any

from tasks.kinds.clusters import InlineCluster
from tasks.protocol.storage import open_storage
from tasks.ray_job.ending import end_with_children
from tasks.ray_job.job import STORAGE_OPTIONS, Job, load_job
from tasks.ray_job.line import Line
from tasks.ray_job.result import explain
from tasks.ray_job.waiting import WAIT, await_job


def main(arguments: list[str]) -> int:
    """Run the job that the file at `arguments[0]` describes.

    Args:
        arguments: the job file's URL, whose filesystem's options are in the environment; or that
            a job will be told on standard input.
    """
    if arguments == [WAIT]:
        told = await_job(sys.stdin)
        if told is None:
            return 0
        arguments = told
    storage, path = open_storage(arguments[0], json.loads(os.environ.pop(STORAGE_OPTIONS, "{}")))
    job = load_job(storage.read(path))
    sys.path.insert(0, job.working_dir)
    error = run(job)
    if error is not None:
        traceback.print_exception(error)
    return 1 if error else 0


def run(job: Job, line: Line | None = None) -> Exception | None:
    """Run a job and leave its result; return what went wrong.

    Args:
        job: what to do.
        line: of a job in this process, for whoever wants to halt it.
    """
    try:
        if isinstance(job.spec.cluster, InlineCluster):
            from tasks.ray_job.inline import run_inline

            run_inline(job, line)
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
    """Store the result; it is the last thing a job writes."""
    body = {"attempt": job.attempt, "run_id": job.run_id, **result}
    job.storage.write(job.result_file, json.dumps(body).encode())


def call(arguments: list[str]) -> int:
    """`main`, for a process that ends with it: also where it is told to end, an exit code."""
    try:
        return main(arguments)
    except BaseException:
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    end_with_children(call(sys.argv[1:]))
