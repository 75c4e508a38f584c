"""The driver's process: a job file in, exit code 0 where the job succeeded."""

import json
import os
import sys
import traceback

from tasks.protocol.storage import open_storage
from tasks.ray_job.driver import run
from tasks.ray_job.ending import end_with_children
from tasks.ray_job.job import STORAGE_OPTIONS, load_job
from tasks.ray_job.waiting import WAIT, await_job


def main(arguments: list[str]) -> int:
    """Run the job that the file at `arguments[0]` describes.

    Args:
        arguments: the job file's URL, whose filesystem's options are in the environment; or that
            a job will be told on standard input.

    Returns:
        The exit code: 0 where the job succeeded, or none came; 1 where it failed.
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


def call(arguments: list[str]) -> int:
    """`main`, and exit code 1 for whatever else ends it, such as a signal."""
    try:
        return main(arguments)
    except BaseException:
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    end_with_children(call(sys.argv[1:]))
