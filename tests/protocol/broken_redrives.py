"""Rule 7's redrives, broken on purpose."""

from tasks.protocol import redrive_shards, redriving
from tasks.protocol.ids import Ids, row_of
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan
from tasks.protocol.redrive_shards import Line
from tests.protocol.breaker import Breaker


def settled_rows_are_brought_in_again(breaker: Breaker) -> None:
    breaker.function(redriving.refuse_settled, lambda seen, done: None)


def redriven_rows_outlive_their_input(breaker: Breaker) -> None:
    breaker.attribute(Snapshot, "holders", property(lambda seen: seen.inputs))


def all_rows_of_a_shard_are_wanted(breaker: Breaker) -> None:
    breaker.attribute(Plan, "wanted", property(lambda plan: {}))


def settled_rows_stay_aside(breaker: Breaker) -> None:
    breaker.attribute(Plan, "rows_aside", property(lambda plan: {}))


def a_shard_done_in_part_is_taken_for_unread(breaker: Breaker) -> None:
    def broken(shard: Line, rows: Ids) -> bool:
        return shard["rows"] is None and row_of(rows).tolist() == [0]

    breaker.function(redrive_shards.may_be_unread, broken)
    # Ends would do too, where all files can always be read.
    breaker.attribute(redrive_shards.PastRun, "length_of", lambda run, shard: 1)
