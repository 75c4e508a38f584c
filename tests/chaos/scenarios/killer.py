"""Keeps a run going, and kills it at given moments."""

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.processes import kill
from tests.chaos.session import Place, Run

MAX_STARTS = 30


@dataclass
class Killer:
    """Keeps a run going and kills it."""

    place: Place
    spec: Path
    dice: random.Random
    run: Run
    kills: int = 0
    starts: int = 1
    problems: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    def until(self, is_time: Callable[[], bool]) -> bool:
        """Wait for a moment; False where the run has ended well before it came."""
        while not is_time():
            if not self.run.is_alive:
                if self.run.wait() == 0:
                    return False
                self.failed()
            time.sleep(0.02)
        return True

    def failed(self) -> None:
        """Start another run; note where this one was not killed and should have gone on."""
        code = self.run.wait()
        if code != -signal.SIGKILL:
            self.problems += (f"exit code {code}: {self.run.errors()[-300:]}",)
        self.again()

    def again(self) -> None:
        """Start once more."""
        self.starts += 1
        if self.starts > MAX_STARTS:
            raise AssertionError(f"does not end after {MAX_STARTS} starts: {self.problems[-1:]}")
        self.run = self.place.start(self.spec, *self.arguments)

    def kill(self, kind: str) -> None:
        """Kill; `until` runs again at once where the orchestrator is among the dead."""
        killed = kill(self.place.mark, kind, self.dice)
        self.kills += killed > 0
        print(f"  killed {kind} ({killed} processes) at {self.place.logged()} rows", flush=True)

    def finish(self) -> None:
        """Let the run come to its end."""
        self.until(lambda: False)


def after_rows(killer: Killer, rows: int) -> Callable[[], bool]:
    """When the model has been handed so many more."""
    wanted = killer.place.logged() + rows
    return lambda: killer.place.logged() >= wanted


def after_seconds(seconds: float) -> Callable[[], bool]:
    """When so much time has passed."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until
