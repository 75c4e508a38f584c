"""Each rule of the protocol, broken on purpose: the simulator must notice.

What proves that a rule is needed proves that the simulator can see.
"""

from collections.abc import Callable, Iterable

import pytest

from tests.protocol import broken_commits, broken_records, broken_redrives
from tests.protocol.breaker import Breaker
from tests.simulation import schedule

MAX_SEEDS = 300

BROKEN: dict[str, Iterable[Callable[[Breaker], None]]] = {
    "1": (
        broken_records.identity_is_not_pinned,
        broken_records.numbers_are_used_again,
        broken_records.records_of_any_plan_count,
    ),
    "2": (broken_records.shards_need_no_end,),
    "3": (
        broken_records.record_comes_before_files,
        broken_records.a_record_may_hold_a_row_twice,
        broken_records.files_are_overwritten,
    ),
    "4": (
        broken_records.overlapping_records_are_taken,
        broken_records.overlapping_records_are_taken_if_some_row_is_new,
        broken_records.rows_outside_the_plan_count,
    ),
    "5": (
        broken_commits.resume_starts_anew,
        broken_commits.done_shards_are_opened_again,
        broken_commits.rejections_are_not_retried,
        broken_commits.rejections_outlive_success,
    ),
    "6": (
        broken_commits.nothing_is_audited,
        broken_commits.rows_are_counted_not_compared,
        broken_commits.commits_are_unconditional,
        broken_commits.nobody_looks_for_the_run_key,
        broken_commits.a_lost_reply_counts_as_success,
        broken_commits.the_version_is_noted_before_files_move,
    ),
    "7": (
        broken_commits.others_inputs_are_published_again,
        broken_commits.old_rows_of_a_changed_input_stay,
        broken_commits.ids_lose_their_order,
        broken_redrives.settled_rows_are_brought_in_again,
        broken_redrives.redriven_rows_outlive_their_input,
        broken_redrives.all_rows_of_a_shard_are_wanted,
        broken_redrives.settled_rows_stay_aside,
        broken_redrives.a_shard_done_in_part_is_taken_for_unread,
    ),
    "8": (broken_commits.children_are_split_between_records,),
}
CASES = [
    pytest.param(how, id=f"rule {rule}: {how.__name__.replace('_', ' ')}")
    for rule, ways in BROKEN.items()
    for how in ways
]


@pytest.mark.parametrize("how", CASES)
def test_simulator_finds_the_broken_rule(
    how: Callable[[Breaker], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    how(Breaker(monkeypatch))
    found = next(filter(None, map(schedule.run_schedule, range(MAX_SEEDS))), None)
    assert found is not None, f"{MAX_SEEDS} schedules and nothing noticed"
