"""read, preprocess, infer, write: four Prefect tasks, each follows its stage of the job."""

from functools import partial
from typing import Any

from prefect import task
from prefect.client.schemas.objects import State
from prefect.exceptions import Pause
from prefect.futures import wait
from prefect.states import Cancelled, Completed

from tasks.artifacts import artifact_key, show_link, shown_beside
from tasks.attempt import Attempt
from tasks.job_look import Look
from tasks.ray_job.counts import nearest
from tasks.ray_job.result import failure
from tasks.stage_artifacts import StageArtifact
from tasks.timeouts import stuck_stage

TURN_SECONDS = 10.0
"""For a stage's task to begin."""


@task(task_run_name="{stage}", persist_result=False, retries=0)
def follow_stage(stage: str, attempt: Attempt) -> State:
    """Follow one stage of the job until it is done; fail if it is the one that raised.

    Args:
        stage: read, preprocess, infer or write.
        attempt: what to follow; whoever comes first starts the job.

    Raises:
        BatchInferenceError: this stage raised; says where.
    """
    if attempt.stopped.is_set() and attempt.running is None:  # red is the stage that says why
        return Cancelled(message="the job did not start")
    running = attempt.ensure_started()
    attempt.followed.add(stage)
    stages = attempt.job.stages
    if stage == stages[0] and running.where.startswith("http"):
        key = artifact_key(attempt.job.spec.name, "job")
        link = partial(show_link, key, running.where, "The job in Ray's dashboard")
        shown_beside("the job's link", link)
    artifact = StageArtifact(stage, attempt)
    while not attempt.stopped.is_set():
        look = attempt.look()
        if look.result is not None:
            artifact.show(look, now=True)
            return ended(stage, stages, look.result, artifact)
        artifact.show(look)
        # The last stage is done when the job is, and speaks for what is no stage's fault.
        if stage != stages[-1] and look.stage(stage).get("state") == "done":
            artifact.show(look, now=True)
            attempt.drained.add(stage)
            return drained(artifact)
        if attempt.stall.lasts(look.progress) and stage == speaks_of_stall(attempt, look):
            attempt.has_stalled = True
            attempt.stop()
            raise attempt.stall.error(look.progress)
        if is_suspended():
            attempt.stop()  # the flow leaves, too, once its tasks are done
        attempt.stopped.wait(attempt.poll_seconds)
    artifact.leave(attempt.last)
    return Cancelled(message="the run was stopped")


def is_suspended() -> bool:
    """Whether somebody has suspended the flow run, to be resumed in another process."""
    try:
        wait([])  # raises where that is so, as any of Prefect's calls in a flow
    except Pause:
        return True
    return False


def speaks_of_stall(attempt: Attempt, look: Look) -> str:
    """The stage whose task fails where nothing moves: the one that is stuck, while it has one.

    Where its task does not get its turn, as by a limit on tasks of a tag, the last that has speaks.
    """
    stages = attempt.job.stages
    stuck = nearest(stuck_stage(look.progress), stages)
    speaker = stages[-1] if stuck in attempt.drained else stuck
    if speaker in attempt.followed or attempt.stall.seconds_beyond(look.progress) < TURN_SECONDS:
        return speaker
    return [each for each in stages if each in attempt.followed - attempt.drained][-1]


@task(task_run_name="{stage}", persist_result=False, retries=0)
def skip_stage(stage: str) -> State:
    """A stage that nothing had to go through, since its rows were kept before."""
    return Completed(message="nothing to do: its rows were kept by an earlier job")


def drained(artifact: StageArtifact) -> State:
    """A stage through which every row has gone is done, whatever becomes of the others."""
    return Completed(message=artifact.summary or "nothing to do")


def ended(
    stage: str, stages: tuple[str, ...], result: dict[str, Any], artifact: StageArtifact
) -> State:
    """The stage's state after the job's end: red for the one that raised, and for no other."""
    error = failure(result)
    if error is None:
        return drained(artifact)
    guilty = nearest(error.stage, stages)
    if stage == guilty:
        raise error
    return Cancelled(message=f"stopped, since {guilty} failed")
