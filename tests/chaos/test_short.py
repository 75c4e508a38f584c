"""The shortest of the scenarios; `make chaos` runs all of them at length."""

import pytest

from tests.chaos.scenarios.kills import kills
from tests.chaos.scenarios.race import race
from tests.chaos.session import Session


@pytest.mark.ray
@pytest.mark.chaos
def test_killed_twice_nothing_is_lost_or_doubled(chaos_session: Session) -> None:
    outcome = kills(chaos_session, 3, rows=4_000, files=20, num_kills=2, seconds=0.02)
    assert outcome.is_good, outcome


@pytest.mark.chaos
def test_two_runs_at_once_publish_every_row_once(chaos_session: Session) -> None:
    outcome = race(chaos_session, 1, rows=1_000, rounds=1, clusters=("inline",))
    assert outcome.is_good, outcome
