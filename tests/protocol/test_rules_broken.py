"""Each rule of the protocol, broken on purpose: the simulator must notice.

What proves that a rule is needed proves that the simulator can see.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tasks.errors import StaleLedger
from tasks.protocol import acceptance, applying, batch, plan_file, publishing, records
from tasks.protocol.acceptance import UNKNOWN, Accepted, Gap
from tasks.protocol.batch import RowBatch
from tasks.protocol.ids import IdRuns, as_ids
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan, Shard
from tasks.protocol.records import Record
from tests.simulation import schedule
from tests.simulation.storage import SimLedger, SimStorage

MAX_SEEDS = 600


class Breaker:
    """Puts something broken where the protocol has something whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def function(self, whole: Callable, broken: Callable) -> None:
        """Replace a function wherever it was imported."""
        for name, module in list(sys.modules.items()):
            ours = name.startswith(("tasks.protocol", "tests.simulation"))
            if ours and getattr(module, whole.__name__, None) is whole:
                self.monkeypatch.setattr(module, whole.__name__, broken)

    def attribute(self, owner: Any, name: str, broken: Any) -> None:
        self.monkeypatch.setattr(owner, name, broken)


def identity_is_not_pinned(breaker: Breaker) -> None:
    breaker.attribute(Shard, "content", property(lambda s: (s.path, s.start, s.stop)))


def numbers_are_used_again(breaker: Breaker) -> None:
    whole = plan_file.supersede

    def broken(old: Plan, shards: list[Shard], pins: dict[str, Any]) -> Plan:
        new = whole(old, shards, pins)
        return replace(new, shards=new.shards.set_column(0, "number", [range(len(shards))]))

    breaker.function(whole, broken)


def records_of_any_plan_count(breaker: Breaker) -> None:
    class Everything(frozenset):
        def __contains__(self, plan: object) -> bool:
            return True

    breaker.attribute(Plan, "lineage", property(lambda plan: Everything()))


def shards_need_no_end(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        gap = whole(plan, accepted, retry_rejected=retry_rejected)
        limits = acceptance.shard_limits(plan, accepted.ends)[gap.shards]
        started = np.array([len(runs) > 0 for runs in gap.covered], dtype=bool)
        left = (limits != UNKNOWN) | ~started
        runs = tuple(runs for runs, is_left in zip(gap.covered, left, strict=True) if is_left)
        return Gap(gap.shards[left], runs, None)

    breaker.function(whole, broken)


def record_comes_before_files(breaker: Breaker) -> None:
    class RecordFirst(SimStorage):
        def __init__(self, storage: SimStorage) -> None:
            self.storage = storage
            self.held: list[tuple[str, bytes]] = []

        def write(self, path: str, data: bytes) -> None:
            self.held.insert(0, (path, data))
            while "/records/" in path and self.held:
                self.storage.write(*self.held.pop(0))

    whole = records.store
    breaker.function(whole, lambda storage, *rest: whole(RecordFirst(storage), *rest))


def a_record_may_hold_a_row_twice(breaker: Breaker) -> None:
    breaker.function(batch.settled_ids, lambda batch: set())


def files_are_overwritten(breaker: Breaker) -> None:
    whole = records.stage

    def broken(storage: SimStorage, run: Any, part: Any) -> Any:
        name = f"{part.partition[-2:-1]}-{part.ids[0]}{part.suffix}"
        storage.write(f"{run.staging}/{name}", part.data)
        return records.StagedFile(name, IdRuns.of(part.ids), len(part.data), part.partition)

    breaker.function(whole, broken)


def overlapping_records_are_taken(breaker: Breaker) -> None:
    breaker.function(acceptance.without_overlap, list)


def overlapping_records_are_taken_if_some_row_is_new(breaker: Breaker) -> None:
    def broken(candidates: list[Record]) -> list[Record]:
        taken, seen = [], set[int]()
        for record in candidates:
            own = set(records.all_ids((record.ok, record.filtered)).tolist())
            if own - seen or not own:
                taken.append(record)
            seen |= own
        return taken

    breaker.function(acceptance.without_overlap, broken)


def rows_outside_the_plan_count(breaker: Breaker) -> None:
    breaker.function(acceptance.fits, lambda *arguments: True)


def resume_starts_anew(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        gap = whole(plan, accepted, retry_rejected=retry_rejected)
        return replace(gap, covered=tuple(IdRuns() for _ in gap.covered))

    breaker.function(whole, broken)


def done_shards_are_opened_again(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        gap = whole(plan, accepted, retry_rejected=retry_rejected)
        if not gap:
            return gap
        everything = whole(plan, replace(accepted, ends={}), retry_rejected=retry_rejected)
        return everything

    breaker.function(whole, broken)


def rejections_are_not_retried(breaker: Breaker) -> None:
    whole = acceptance.find_gap
    breaker.function(whole, lambda plan, accepted, **_: whole(plan, accepted, retry_rejected=False))


def rejections_outlive_success(breaker: Breaker) -> None:
    whole = acceptance.accept

    def broken(found: list[Record], plan: Plan) -> Accepted:
        accepted = whole(found, plan)
        rejected = records.all_ids(record.rejected for record in accepted.records)
        return replace(accepted, rejected=np.unique(rejected))

    breaker.function(whole, broken)


def nothing_is_audited(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        if not retry_rejected:
            return Gap(as_ids(()), (), 0)
        return whole(plan, accepted, retry_rejected=retry_rejected)

    breaker.function(whole, broken)


def rows_are_counted_not_compared(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        gap = whole(plan, accepted, retry_rejected=retry_rejected)
        limits = acceptance.shard_limits(plan, accepted.ends)
        rows = sum(len(ids) for ids in (accepted.ok, accepted.filtered, accepted.rejected))
        enough = not (limits == UNKNOWN).any() and rows >= limits.sum()
        return Gap(as_ids(()), (), 0) if enough and not retry_rejected else gap

    breaker.function(whole, broken)
    breaker.function(acceptance.without_overlap, list)


def commits_are_unconditional(breaker: Breaker) -> None:
    breaker.attribute(SimLedger, "is_fresh", lambda ledger, seen: True)


def nobody_looks_for_the_run_key(breaker: Breaker) -> None:
    breaker.attribute(Snapshot, "version_of", lambda seen, run_key: None)


def a_lost_reply_counts_as_success(breaker: Breaker) -> None:
    whole = SimLedger.commit

    def broken(ledger: SimLedger, entry: Any, seen: Snapshot) -> int:
        try:
            return whole(ledger, entry, seen)
        except StaleLedger:
            return seen.version + 1

    breaker.attribute(SimLedger, "commit", broken)


def others_inputs_are_published_again(breaker: Breaker) -> None:
    breaker.function(publishing.refuse_published, lambda seen, what: None)


def old_rows_of_a_changed_input_stay(breaker: Breaker) -> None:
    breaker.function(publishing.changed_files, lambda *arguments: ([], []))


def ids_lose_their_order(breaker: Breaker) -> None:
    whole = IdRuns.of
    breaker.attribute(IdRuns, "of", staticmethod(lambda ids: whole(np.sort(ids))))


def children_are_split_between_records(breaker: Breaker) -> None:
    whole = records.store

    def broken(storage: Any, run: Any, plan: str, both: RowBatch, encode: Any) -> Record:
        half = len(both.rows) // 2
        nothing = {"rejected": (), "filtered": IdRuns(), "ends": ()}
        whole(storage, run, plan, replace(both, rows=both.rows[:half], **nothing), encode)
        return whole(storage, run, plan, replace(both, rows=both.rows[half:]), encode)

    breaker.function(whole, broken)


def the_version_is_noted_before_files_move(breaker: Breaker) -> None:
    class Behind(SimStorage):
        def __init__(self, storage: SimStorage, before: int) -> None:
            self.__dict__.update(storage.__dict__, before=before)

        def read(self, path: str) -> bytes:
            return str(self.before).encode()

    whole = applying.apply

    def broken(storage: SimStorage, output: Any, seen: Snapshot) -> None:
        before = applying.applied_version(storage, output)
        if before < seen.version:
            storage.write(output.applied, str(seen.version).encode())
            whole(Behind(storage, before), output, seen)

    breaker.function(whole, broken)


BROKEN: dict[str, Iterable[Callable[[Breaker], None]]] = {
    "1": (identity_is_not_pinned, numbers_are_used_again, records_of_any_plan_count),
    "2": (shards_need_no_end,),
    "3": (record_comes_before_files, a_record_may_hold_a_row_twice, files_are_overwritten),
    "4": (
        overlapping_records_are_taken,
        overlapping_records_are_taken_if_some_row_is_new,
        rows_outside_the_plan_count,
    ),
    "5": (
        resume_starts_anew,
        done_shards_are_opened_again,
        rejections_are_not_retried,
        rejections_outlive_success,
    ),
    "6": (
        nothing_is_audited,
        rows_are_counted_not_compared,
        commits_are_unconditional,
        nobody_looks_for_the_run_key,
        a_lost_reply_counts_as_success,
        the_version_is_noted_before_files_move,
    ),
    "7": (others_inputs_are_published_again, old_rows_of_a_changed_input_stay, ids_lose_their_order),
    "8": (children_are_split_between_records,),
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
