"""Shows a run's four stages while it goes on: bars in a terminal, else a line now and then."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from flows.console import escape, say
from tasks.attempt import FOLLOWED
from tasks.errors import BatchInferenceError
from tasks.job_look import Look
from tasks.ray_job.counts import AFTER_CUT, BEFORE_CUT, STAGES
from tasks.stage_summary import summary

BARS_EVERY_SECONDS = 0.5
LINE_EVERY_SECONDS = (5.0, 30.0)
"""At first and later: nobody reads thousands of lines of a night."""
AT_FIRST_SECONDS = 300.0


@contextmanager
def live_progress(console: Console) -> Iterator[None]:
    """Show whatever attempt this process follows, until the block ends."""
    ended = threading.Event()
    show = show_bars if console.is_interactive else show_lines
    thread = threading.Thread(target=show, args=(console, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stages_now() -> dict[str, Look]:
    """What tells of each stage: the attempt followed last, or of a run in two jobs the other."""
    if not FOLLOWED:
        return {}
    last = FOLLOWED[-1]
    before = [each for each in FOLLOWED[-2:-1] if each.job.stages == BEFORE_CUT]
    looks = [(each.job.stages, each.last) for each in before if last.job.stages == AFTER_CUT]
    with suppress(BatchInferenceError):  # the run itself says what is away, and may wait for it
        last.look()
    looks.append((last.job.stages, last.last))
    return {stage: look for stages, look in looks if look.progress for stage in stages}


def queued_for() -> str | None:
    """What the attempt followed last waits for, where it has not begun."""
    return FOLLOWED[-1].last.queued_for if FOLLOWED else None


def show_bars(console: Console, ended: threading.Event) -> None:
    """A bar for each stage."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:10}"),
        BarColumn(),
        TextColumn("{task.fields[summary]}"),
    )
    with Progress(*columns, console=console) as bars:
        ids = {stage: bars.add_task(stage, total=None, summary="waiting") for stage in STAGES}
        while not ended.wait(BARS_EVERY_SECONDS):
            draw(bars, ids)
        draw(bars, ids)


def draw(bars: Progress, ids: dict[str, TaskID]) -> None:
    """Bring the bars up to date."""
    now, awaited = stages_now(), queued_for()
    if awaited:
        first = FOLLOWED[-1].job.stages[0]
        bars.update(ids[first], summary=escape(f"waits for {awaited}"))
        return
    for stage, look in now.items():
        counts = look.stage(stage)
        done = counts["state"] == "done"
        total = counts["rows"] or 1 if done else counts["total"]
        completed = total if done else counts["rows"]
        words = escape(summary(look, stage))
        bars.update(ids[stage], total=total, completed=completed, summary=words)


def show_lines(console: Console, ended: threading.Event) -> None:
    """All stages in one line, now and then."""
    begun = time.monotonic()
    while not ended.wait(LINE_EVERY_SECONDS[time.monotonic() - begun >= AT_FIRST_SECONDS]):
        stages, awaited = stages_now(), queued_for()
        line = " | ".join(f"{stage}: {summary(look, stage)}" for stage, look in stages.items())
        if awaited:
            line = f"the job waits for {awaited}"
        if line:
            say(line)
