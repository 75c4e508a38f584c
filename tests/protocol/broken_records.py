"""Rules 1 to 4 of the protocol, broken on purpose: plans, ends, records, acceptance."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.protocol import acceptance, batch, plan_file, records, same_shards
from tasks.protocol.acceptance import Accepted, Gap
from tasks.protocol.ids import IdRuns, Ids, Mask, as_ids
from tasks.protocol.plan_file import UNKNOWN, Plan
from tasks.protocol.ranges import Spans
from tests.protocol.breaker import Breaker
from tests.simulation.storage import SimStorage


def identity_is_not_pinned(breaker: Breaker) -> None:
    whole = same_shards.places_in

    def broken(*plans: pa.Table) -> Ids:
        any_one = (pa.repeat("any", len(each)) for each in plans)
        return whole(*(each.set_column(2, "identity", next(any_one)) for each in plans))

    breaker.function(whole, broken)


def numbers_are_used_again(breaker: Breaker) -> None:
    whole = plan_file.supersede

    def broken(old: Plan, shards: pa.Table, pins: dict[str, Any]) -> Plan:
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
        started = gap.covered.count_in(plan.numbers[gap.shards]) > 0
        left = gap.shards[(limits != UNKNOWN) | ~started]
        return Gap(left, gap.covered.in_shards(plan.numbers[left]), None, gap.done)

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
    breaker.function(batch.settled_ids, lambda batch: as_ids(()))


def files_are_overwritten(breaker: Breaker) -> None:
    whole = records.stage

    def broken(storage: SimStorage, run: Any, part: Any) -> Any:
        name = f"{part.partition[-2:-1]}-{part.ids[0]}{part.suffix}"
        storage.write(f"{run.staging}/{name}", part.data)
        return records.StagedFile(name, IdRuns.of(part.ids), len(part.data), part.partition)

    breaker.function(whole, broken)


def overlapping_records_are_taken(breaker: Breaker) -> None:
    breaker.function(acceptance.overlapping, lambda settled, chosen: np.zeros_like(chosen))


def overlapping_records_are_taken_if_some_row_is_new(breaker: Breaker) -> None:
    def broken(settled: Spans, chosen: Mask) -> Mask:
        found, seen = np.zeros_like(chosen), set[int]()
        for owner in np.flatnonzero(chosen).tolist():
            own = {*settled[settled.owners == owner].joined().ids().tolist()}
            found[owner] = own and own <= seen
            seen |= own
        return found

    breaker.function(acceptance.overlapping, broken)


def rows_outside_the_plan_count(breaker: Breaker) -> None:
    breaker.function(acceptance.fitting, lambda records, *_: np.ones(len(records), dtype=bool))
