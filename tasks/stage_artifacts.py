"""A progress artifact for each stage: what Prefect shows of it while it works."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.exceptions import PrefectHTTPStatusError

from tasks.artifacts import artifact_key, shown_beside
from tasks.attempt import Attempt
from tasks.job_look import Look
from tasks.stage_summary import summary

if TYPE_CHECKING:
    from threading import Thread

EAGER_SECONDS = 30.0
REPORT_EVERY_SECONDS = (2.5, 10.0)
"""Between two updates of a stage's artifact, at first and later: a server may have many to follow,
and a run of hours need not be drawn every second."""
LAST_UPDATE_SECONDS = 10.0
"""For the server to take a stage's last update, and as long for the one before."""
NOT_FOUND = 404


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
