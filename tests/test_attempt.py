"""Whoever follows an attempt leaves signs in time: a job without signs stops itself."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import attempt
from tasks.attempt import POLL_SECONDS, Attempt
from tests.flows.conftest import spec_of


@dataclass
class Signs:
    """Stands for the storage and for the module `time`: when which sign was left."""

    now: float = 1_000.0
    left: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def write(self, path: str, data: bytes) -> None:
        self.left.append(self.now)


@pytest.mark.parametrize(
    "orphan_seconds",
    [
        3.0,
        15.0,
        1800.0,
    ],
)
def test_signs_come_twice_as_often_as_they_are_missed(
    orphan_seconds: float, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs = Signs()
    monkeypatch.setattr(attempt, "time", signs)
    spec = spec_of(tmp_path, timeouts={"orphan_seconds": orphan_seconds})
    job: Any = SimpleNamespace(spec=spec, run_id="run", followed="followed.json", storage=signs)
    following = Attempt(job, cluster=SimpleNamespace())
    for _ in range(round(3 * 60 / POLL_SECONDS)):
        following.leave_mark()
        signs.now += POLL_SECONDS
    gaps = [later - sooner for sooner, later in zip(signs.left, signs.left[1:], strict=False)]
    assert max(gaps) <= orphan_seconds / 2
