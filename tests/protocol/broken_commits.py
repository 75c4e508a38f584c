"""Rules 5 to 8 of the protocol, broken on purpose: resume, commit, versions, children."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tasks.errors import StaleLedger
from tasks.protocol import acceptance, applying, publishing, records
from tasks.protocol.acceptance import Accepted, Gap
from tasks.protocol.batch import RowBatch
from tasks.protocol.ids import IdRuns, as_ids
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import UNKNOWN, Plan
from tasks.protocol.ranges import IdRanges
from tasks.protocol.records import Record
from tasks.protocol.shard_ends import Ends
from tests.protocol.breaker import Breaker
from tests.simulation.storage import SimLedger, SimStorage


def resume_starts_anew(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        gap = whole(plan, accepted, retry_rejected=retry_rejected)
        return replace(gap, covered=IdRanges.of(()))

    breaker.function(whole, broken)


def done_shards_are_opened_again(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        gap = whole(plan, accepted, retry_rejected=retry_rejected)
        if not gap:
            return gap
        everything = whole(plan, replace(accepted, ends=Ends.of(())), retry_rejected=retry_rejected)
        return everything

    breaker.function(whole, broken)


def rejections_are_not_retried(breaker: Breaker) -> None:
    whole = acceptance.find_gap
    breaker.function(whole, lambda plan, accepted, **_: whole(plan, accepted, retry_rejected=False))


def rejections_outlive_success(breaker: Breaker) -> None:
    whole = acceptance.accept

    def broken(found: list[Record], plan: Plan) -> Accepted:
        accepted = whole(found, plan)
        rejected = IdRanges.of((record.rejected,) for record in accepted.records)
        return replace(accepted, rejected=rejected)

    breaker.function(whole, broken)


def nothing_is_audited(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        if not retry_rejected:
            return Gap(as_ids(()), IdRanges.of(()), 0, accepted.done)
        return whole(plan, accepted, retry_rejected=retry_rejected)

    breaker.function(whole, broken)


def rows_are_counted_not_compared(breaker: Breaker) -> None:
    whole = acceptance.find_gap

    def broken(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        gap = whole(plan, accepted, retry_rejected=retry_rejected)
        limits = acceptance.shard_limits(plan, accepted.ends)
        rows = accepted.num_ok + accepted.num_filtered + len(accepted.rejected)
        enough = not (limits == UNKNOWN).any() and rows >= limits.sum()
        nothing = Gap(as_ids(()), IdRanges.of(()), 0, accepted.done)
        return nothing if enough and not retry_rejected else gap

    breaker.function(whole, broken)
    breaker.function(acceptance.overlapping, lambda settled, chosen: np.zeros_like(chosen))


def commits_are_unconditional(breaker: Breaker) -> None:
    breaker.attribute(SimLedger, "is_fresh", lambda ledger, seen: True)


def nobody_looks_for_the_run_key(breaker: Breaker) -> None:
    breaker.attribute(Snapshot, "version_of", lambda seen, run_key: None)


def a_lost_reply_counts_as_success(breaker: Breaker) -> None:
    def broken(storage: SimStorage, ledger: SimLedger, output: Any, what: Any) -> int:
        seen = applying.bring_up_to_date(storage, ledger, output)
        version = seen.version_of(what.run_key)
        if version is not None:
            return version
        with suppress(StaleLedger):
            ledger.commit(publishing.entry_for(storage, output, seen, what), seen)
        applying.bring_up_to_date(storage, ledger, output)
        return seen.version + 1

    breaker.function(publishing.publish, broken)


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
        whole(storage, run, plan, RowBatch(both.rows[:half]), encode)
        return whole(storage, run, plan, replace(both, rows=both.rows[half:]), encode)

    breaker.function(whole, broken)


def the_version_is_noted_before_files_move(breaker: Breaker) -> None:
    class Behind(SimStorage):
        def __init__(self, storage: SimStorage, before: int) -> None:
            self.__dict__.update(storage.__dict__)
            self.before = before

        def read(self, path: str) -> bytes:
            return str(self.before).encode()

    whole = applying.apply

    def broken(storage: SimStorage, ledger: SimLedger, output: Any, seen: Snapshot) -> None:
        before = applying.applied_version(storage, output, seen.id)
        if before < seen.version:
            storage.write(output.applied, str(seen.version).encode())
            whole(Behind(storage, before), ledger, output, seen)

    breaker.function(whole, broken)
