"""Looks at a cluster's list of jobs all the time: which there were, how many lived at once."""

import json
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.error import HTTPError

EVERY_SECONDS = 0.3
LIVE = ("PENDING", "RUNNING")


@dataclass
class JobsWatch:
    """A thread that looks; a cluster that does not answer shows no job, nor one from before."""

    address: str
    token: str = ""
    known: set[str] = field(default_factory=set)
    """Jobs that were there before, of others perhaps."""
    seen: set[str] = field(default_factory=set)
    most_at_once: int = 0
    answers: list[float] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self.known = set(self.jobs() or {})
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def watch(self) -> None:
        """Look until the end."""
        while not self.ended.wait(EVERY_SECONDS):
            jobs = self.jobs()
            if jobs is None:
                continue
            self.answers.append(time.time())
            self.seen |= set(jobs)
            self.most_at_once = max(self.most_at_once, len(live(jobs)))

    def jobs(self) -> dict[str, str] | None:
        """New jobs by submission id with their status; None where the cluster does not answer.

        Raises:
            HTTPError: it does not let us in.
        """
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            asked = urllib.request.Request(f"{self.address}/api/jobs/", headers=headers)
            with urllib.request.urlopen(asked, timeout=5) as answer:
                listed: list[dict[str, Any]] = json.load(answer)
        except HTTPError as error:
            if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise
            return None
        except (OSError, ValueError):
            return None
        jobs = {each["submission_id"]: each["status"] for each in listed if each["submission_id"]}
        return {each: status for each, status in jobs.items() if each not in self.known}

    def answered_after(self, moment: float) -> float:
        """When the cluster first answered after a moment; waits for it."""
        while not (found := [at for at in self.answers if at > moment]):
            time.sleep(EVERY_SECONDS)
        return found[0]

    def await_none(self, seconds: float) -> list[str]:
        """Wait until no job lives; those that do nevertheless."""
        until = time.monotonic() + seconds
        while (left := live(self.jobs() or {})) and time.monotonic() < until:
            time.sleep(EVERY_SECONDS)
        return left


def live(jobs: dict[str, str]) -> list[str]:
    """Those that wait or run."""
    return [each for each, status in jobs.items() if status in LIVE]
