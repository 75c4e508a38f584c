"""read, preprocess, infer, write: four Prefect tasks, each follows its stage of the job."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.schemas.objects import State
from prefect.exceptions import Pause, PrefectHTTPStatusError
from prefect.futures import wait
from prefect.states import Cancelled, Completed

from tasks.artifacts import artifact_key, show_link, shown_beside
from tasks.attempt import Attempt
from tasks.counted import counted
from tasks.job_look import Look
from tasks.ray_job.counts import STAGES, nearest
from tasks.ray_job.result import failure
from tasks.reporting.numbers import duration, write_number
from tasks.timeouts import stuck_stage

if TYPE_CHECKING:
    from threading import Thread

EAGER_SECONDS = 30.0
REPORT_EVERY_SECONDS = (2.5, 10.0)
"""Between two updates of a stage's artifact, at first and later: a server may have many to follow,
and a run of hours need not be drawn every second."""
TURN_SECONDS = 10.0
"""For a stage's task to begin."""
LAST_UPDATE_SECONDS = 10.0
"""For the server to take a stage's last update, and as long for the one before."""
NOT_FOUND = 404
QUIET_SECONDS = 60.0
"""For so long the stage at work may move no row without a word on that."""


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


def drained(artifact: "StageArtifact") -> State:
    """A stage through which every row has gone is done, whatever becomes of the others."""
    return Completed(message=artifact.summary or "nothing to do")


def ended(
    stage: str, stages: tuple[str, ...], result: dict[str, Any], artifact: "StageArtifact"
) -> State:
    """The stage's state after the job's end: red for the one that raised, and for no other."""
    error = failure(result)
    if error is None:
        return drained(artifact)
    guilty = nearest(error.stage, stages)
    if stage == guilty:
        raise error
    return Cancelled(message=f"stopped, since {guilty} failed")


class StageArtifact:
    """A progress artifact that shows rows, rows a second and time left."""

    def __init__(self, stage: str, attempt: Attempt) -> None:
        self.stage = stage
        self.key = artifact_key(attempt.job.spec.name, stage)
        self.id: Any = None
        self.begun = time.monotonic()
        self.shown = 0.0
        self.summary, self.percent = "", 0.0
        self.drawn: tuple[str, float] | None = None
        """What of them the server has taken last."""
        self.is_gone = False
        """Whether somebody has deleted it, alone or with its flow run."""
        self.update: Thread | None = None
        """The last one, which the server may not have taken yet."""

    def show(self, look: Look, *, now: bool = False) -> None:
        """Update the artifact, not more than every few seconds."""
        counts = look.stage(self.stage)
        if not counts or not (now or self.is_due()):
            return
        self.shown = time.monotonic()
        self.summary, self.percent = summary(look, self.stage), percent_of(counts)
        self.send(LAST_UPDATE_SECONDS if now else 0.0)
        if now:
            SHOWN_LAST.append(self)

    def leave(self, look: Look) -> None:
        """Say that the stage was stopped, as far as the server hears of it at once."""
        if counts := look.stage(self.stage):
            self.summary, self.percent = summary(look, self.stage, is_over=True), percent_of(counts)
            self.send(0.0)
            SHOWN_LAST.append(self)

    def send(self, seconds: float) -> None:
        """Send an update, unless the server is still busy with the one before.

        Args:
            seconds: how long to wait for the server.
        """
        if self.update:
            self.update.join(seconds)
            if self.update.is_alive():
                return
        if self.is_gone:
            return
        draw = partial(self.draw, self.percent, self.summary)
        self.update = shown_beside(f"the stage {self.stage}", draw)
        self.update.join(seconds)

    def draw(self, percent: float, summary: str) -> None:
        """Make the artifact, or bring it up to date."""
        try:
            if self.id is None:
                self.id = create_progress_artifact(percent, key=self.key, description=summary)
            else:
                update_progress_artifact(self.id, percent, description=summary)
        except PrefectHTTPStatusError as error:
            self.is_gone = error.response.status_code == NOT_FOUND
            raise
        self.drawn = summary, percent

    def is_due(self) -> bool:
        """Whether the last update is old enough."""
        at_first, later = REPORT_EVERY_SECONDS
        is_young = time.monotonic() - self.begun < EAGER_SECONDS
        return time.monotonic() - self.shown >= (at_first if is_young else later)


SHOWN_LAST: list[StageArtifact] = []
"""Of stages that are over; the server may have been away when they were."""


def catch_up() -> None:
    """Show what Prefect's server has missed of stages that are over; it answers by now."""
    while True:
        try:
            artifact = SHOWN_LAST.pop()
        except IndexError:  # runs in several threads take them out
            return
        if artifact.update:
            artifact.update.join(LAST_UPDATE_SECONDS)
        if artifact.drawn != (artifact.summary, artifact.percent):
            artifact.send(LAST_UPDATE_SECONDS)


def percent_of(counts: dict[str, Any]) -> float:
    """Rows that are through; below a hundred until the stage is done."""
    if counts["state"] == "done":
        return 100.0
    return min(99.0, 100 * counts["rows"] / counts["total"]) if counts["total"] else 0.0


BETWEEN = STAGES[1:-1]
"""Stages that have rows before them as long as they work; writers wait for more to come."""


def has_been_passed(look: Look, stage: str) -> bool:
    """Whether rows have reached a later stage, so that one that has seen none will see none."""
    return any(look.stage(later)["started"] for later in STAGES[STAGES.index(stage) + 1 :])


def has_failed(look: Look) -> bool:
    """Whether the job has come to another end than its own."""
    return look.result is not None and look.result["error"] is not None


def summary(look: Look, stage: str, *, is_over: bool = False) -> str:
    """A stage in one line.

    Args:
        look: at its job.
        stage: read, preprocess, infer or write.
        is_over: whether the job does not go on, though it has not said so.
    """
    counts, progress = look.stage(stage), look.progress
    if not progress:
        return "waiting"
    is_done, is_over = counts["state"] == "done", is_over or has_failed(look)
    if look.queued_for and not is_over:
        return f"waits for {look.queued_for}"
    if counts["started"]:
        is_stopped = is_over and not is_done
        return moved(counts, "stopped" if is_stopped else held_up(progress, stage))
    if is_done or has_been_passed(look, stage):
        return "nothing to do"
    if is_over:
        return "not begun"
    if stage not in BETWEEN or stage != stuck_stage(progress):
        return "waiting"
    # A model may take half a minute for the first rows, and nobody is to take it for stuck.
    waits_for = progress["waits_for"]
    return f"waits for {waits_for}" if waits_for else "at work on its first rows"


def held_up(progress: dict[str, Any], stage: str) -> str:
    """What keeps a stage at work from its next rows, such as a node that is lost; else nothing.

    How long it would go on as fast as before would stand there as if it did.
    """
    counts = progress["stages"][stage]
    if counts["state"] == "done" or stage != stuck_stage(progress):
        return ""
    if progress["waits_for"]:
        return f"waits for {progress['waits_for']}"
    quiet = progress["at"] - counts["updated"]  # by the clock of one machine
    if quiet < QUIET_SECONDS or stage == STAGES[-1]:  # which gathers rows for a file
        return ""
    return f"no row for {duration(quiet)}"


def moved(counts: dict[str, Any], halt: str = "") -> str:
    """Rows that a stage has moved, how fast, and how long it goes on, or why it does not."""
    seconds = max(counts["updated"] - counts["started"], 1e-3)
    rate = counts["rows"] / seconds
    parts = [counted(counts["rows"], "row"), f"{write_number(rate)} rows/s"]
    if counts["rejected"]:
        parts.append(f"{counts['rejected']:,} set aside")
    if passed_over := counts.get("passed_over"):  # jobs of earlier versions do not tell
        parts.append(f"{passed_over:,} passed over")
    left = (counts["total"] or 0) - counts["rows"]  # none where more rows come than was reckoned
    if halt:
        parts.append(halt)
    elif counts["state"] != "done" and left > 0 and rate:
        parts.append(f"{time_left(max(1.0, left / rate))} left")
    return ", ".join(parts)


def time_left(seconds: float) -> str:
    """Seconds as long as they can be waited for, else a larger unit."""
    return f"{seconds:.0f} s" if seconds < 120 else duration(seconds)
