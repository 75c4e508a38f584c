"""A job that only looks whether every node of a cluster could do the work, and ends there."""

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tasks.attempt import Attempt
from tasks.clusters.choose import cluster_of
from tasks.errors import NoProgress
from tasks.job_look import Look
from tasks.plan import PlannedRun
from tasks.ray_job.job import Job
from tasks.ray_job.result import failure
from tasks.timeouts import Stall

SILENT_SECONDS = 180.0
"""How long a check may say nothing. What it waits for has limits of its own, and it says so."""


def rehearse(planned: PlannedRun, tell: Callable[[str], None] = lambda _: None) -> str:
    """Send the job and wait for what it says; nothing of it is left behind.

    Args:
        planned: the run.
        tell: called with what the job waits for, where that is news.

    Raises:
        InvalidSpec: a node lacks something; names it.
        Unreachable: the cluster, or a storage from there, does not answer.
        NoProgress: the job neither ended nor said what it waits for.
    """
    job = Job(
        spec=planned.spec,
        run_id=f"check-{uuid.uuid4().hex[:10]}",
        attempt=1,
        plan=planned.plan.digest,
        pins=planned.plan.pins,
        num_shards=0,
        todo_bytes=0,
        todo_rows=0,
        todo_name="",
        only_check=True,
        timed_inputs=planned.options.timed_inputs,
    )
    job.save()
    attempt = Attempt(job, cluster_of(planned.spec.cluster), tell=lambda _: None)
    attempt.unreachable_seconds = 0.0  # nothing is lost yet: who does not answer is reported
    try:
        attempt.ensure_started()
        error = failure(await_result(attempt, tell))
        if error is not None:
            raise error
    finally:
        attempt.stop()
        with suppress(OSError):  # what it found is to be heard; `clean` finds what is left
            job.storage.filesystem.rm(job.run.path, recursive=True)
    return "every node finds the code and reaches source, output and model"


def await_result(attempt: Attempt, tell: Callable[[str], None]) -> dict[str, Any]:
    """Wait until the job has ended, as long as it says what it waits for.

    Raises:
        NoProgress: it has said nothing for too long.
    """
    silence, said = Stall(SILENT_SECONDS, attempt.stall.first_word_seconds), None
    while (look := attempt.look()).result is None:
        if silence.lasts(look.progress):
            raise unended(attempt, look, silence.limit(look.progress))
        if look.queued_for and look.queued_for != said:
            said = look.queued_for
            tell(f"the check waits for {said}")
        time.sleep(attempt.poll_seconds)
    return look.result


def unended(attempt: Attempt, look: Look, seconds: float) -> NoProgress:
    """The error for a check that has gone silent."""
    last = f"it waited for {look.queued_for}" if look.queued_for else "it has not started"
    where = f"; see {attempt.running.where}" if attempt.running else ""
    return NoProgress(
        f"the check did not finish, and its job has reported nothing for {seconds:.0f} s: "
        f"{last}{where}"
    )
