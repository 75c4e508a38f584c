"""What a fault sees of the cell that it strikes: job, stage, processes."""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.chaos.matrix.clusters import Clusters
from tests.chaos.matrix.job import ROWS
from tests.chaos.matrix.jobs_watch import JobsWatch
from tests.chaos.matrix.link import Link
from tests.chaos.matrix.orchestrators import Orchestrator
from tests.chaos.matrix.prefect_api import PrefectApi
from tests.chaos.processes import GONE, marked, role
from tests.chaos.session import Place

AWAIT_SECONDS = 250.0
MID_RUN = (0.2, 0.5)
"""Between which shares of its rows a stage is struck."""
T = TypeVar("T")


@dataclass
class Scene:
    """A cell in mid-run."""

    clusters: Clusters
    place: Place
    stage: str
    dice: random.Random
    orchestrator: Orchestrator
    watch: JobsWatch
    link: Link

    def await_mid_run(self) -> int:
        """Wait until the stage has done some share of its rows; how many."""
        wanted = int(ROWS * self.dice.uniform(*MID_RUN))
        return self.found(lambda: self.rows_of_stage(wanted), f"{self.stage} gets no {wanted} rows")

    def rows_of_stage(self, wanted: int) -> int | None:
        """Rows of the stage that runs; None where it does not, or has done fewer."""
        progress = self.progress()
        found = progress["stages"][self.stage] if progress else {}
        rows = int(found.get("rows", 0))
        return rows if found.get("state") == "running" and rows >= wanted else None

    def progress(self) -> dict[str, Any] | None:
        """What the newest attempt says of itself."""
        files = [folder / "progress.json" for folder in self.attempts()]
        found: dict[str, Any] | None = None
        if files and files[-1].exists():
            found = json.loads(files[-1].read_text())
        return found

    def attempts(self) -> list[Path]:
        """Folders of the run's attempts, in order."""
        found = (self.place.folder / "out.state").glob("runs/*/attempts/*")
        return sorted(found, key=lambda folder: int(folder.name))

    def worker(self, nodes: list[int] | None = None) -> psutil.Process:
        """A process at work on the stage; of one of the nodes, by their raylets, where given."""

        def find() -> psutil.Process | None:
            for process in marked(self.place.mark):
                try:
                    is_it = is_at_work(process.cmdline()[0], self.stage)
                    if is_it and (nodes is None or process.ppid() in nodes):
                        return process
                except (*GONE, IndexError):
                    continue
            return None

        return self.found(find, f"no worker is at {self.stage}")

    def driver(self) -> psutil.Process:
        """The driver's process on the head."""
        found = [each for each in marked(self.place.mark) if role(each) == "driver"]
        # A shell stands above it.
        return next(each for each in found if not each.name().endswith("sh"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Model and slow records wait, so that whoever comes back finds the job at work."""
        sign = self.place.log / "held"
        sign.touch()
        try:
            yield
        finally:
            sign.unlink()

    def attached_after(self, moment: float) -> float:
        """Wait until somebody follows again; seconds since the new flow had its plan."""
        sign = self.attempts()[-1] / "followed.json"

        def followed() -> float | None:
            at = sign.stat().st_mtime
            return at if at > moment else None

        at = self.found(followed, "nobody follows")
        api = PrefectApi(self.place.environment["PREFECT_API_URL"])
        planned = self.found(lambda: api.planned_after(moment), "no plan is done")
        return at - planned

    def found(self, look: Callable[[], T | None], otherwise: str) -> T:
        """Look until there is something.

        Raises:
            TimeoutError: there is nothing, or the run is over.
        """
        until = time.monotonic() + AWAIT_SECONDS
        while (found := look()) is None:
            if time.monotonic() > until or not self.orchestrator.is_alive:
                raise TimeoutError(f"{otherwise}: {self.orchestrator.wait()}")
            time.sleep(0.05)
        return found


def is_at_work(title: str, stage: str) -> bool:
    """Whether a process does a stage's work: Ray names it after its operator."""
    return title.startswith("ray::") and stage in title.lower()
