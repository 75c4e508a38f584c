"""A check says at once who does not answer: no run waits for it."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.errors import Unreachable
from tasks.kinds.clusters import RayJobsCluster
from tasks.plan import make_plan
from tasks.rehearsal import rehearse
from tests.flows.conftest import numbers, spec_of

__all__ = ["numbers"]


def test_a_cluster_that_does_not_answer_is_not_waited_for(numbers: Path) -> None:
    planned = make_plan(spec_of(numbers))
    away = RayJobsCluster(address="http://127.0.0.1:9")
    elsewhere = replace(planned, spec=planned.spec.model_copy(update={"cluster": away}))
    begun = time.monotonic()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 does not answer"):
        rehearse(elsewhere)
    assert time.monotonic() - begun < 20
    assert list(Path(f"{planned.spec.sink.path}.state/runs").glob("check-*")) == []
