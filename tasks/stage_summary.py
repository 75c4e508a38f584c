"""A stage in one line: its rows, how fast they move, and what holds it up."""

from typing import Any

from tasks.counted import counted
from tasks.job_look import Look
from tasks.ray_job.counts import STAGES
from tasks.reporting.numbers import duration, write_number
from tasks.timeouts import stuck_stage

QUIET_SECONDS = 60.0
"""For so long the stage at work may move no row without a word on that."""
BETWEEN = STAGES[1:-1]
"""Stages that have rows before them as long as they work; writers wait for more to come."""


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


def has_been_passed(look: Look, stage: str) -> bool:
    """Whether rows have reached a later stage, so that one that has seen none will see none."""
    return any(look.stage(later)["started"] for later in STAGES[STAGES.index(stage) + 1 :])


def has_failed(look: Look) -> bool:
    """Whether the job has come to another end than its own."""
    return look.result is not None and look.result["error"] is not None


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
