"""What was said of rows that a redrive sets aside again: it stays with them."""

import io
import json
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.plan import PlannedRun
from tasks.protocol.ids import ROW_BITS, IdRuns, Ids, row_of
from tasks.protocol.rewriting import AmendRows, read_published
from tasks.ray_job.writing import QUARANTINE, QUARANTINE_SCHEMA

REASON = ["stage", "error_type", "error_message"]
WORDS = ["run_id", *REASON]
Words = list[dict[str, Any]]


def with_history(planned: PlannedRun) -> AmendRows:
    """A function that gives each row of a redrive's quarantine file its history."""

    # Read as late as that: whoever publishes the same redrive may have moved files meanwhile, and
    # publishing looks again then.
    @cache
    def said() -> dict[int, Words]:
        return said_before(planned)

    def amend(content: bytes, ids: Ids) -> bytes:
        table, known = QUARANTINE.decode(content), said()
        history = [json.dumps(known[id_]) if id_ in known else None for id_ in ids.tolist()]
        at = QUARANTINE_SCHEMA.get_field_index("history")
        return QUARANTINE.encode(table.set_column(at, "history", pa.array(history, pa.string())))

    return amend


def said_before(planned: PlannedRun) -> dict[int, Words]:
    """What the quarantine says of each row that the redrive does, by its id in the redrive."""
    new_ids = ids_in_redrive(planned)
    said = {}
    for file in planned.ledger.look().quarantine.values():
        if file.run_id not in new_ids:
            continue
        content = read_published(planned.storage, planned.output, file)
        lines = pq.read_table(io.BytesIO(content)).to_pylist()
        for old_id, line in zip(file.ids.ids().tolist(), lines, strict=True):
            new_id = new_ids[file.run_id].get(old_id)
            if new_id is not None:
                said[new_id] = words_of(line)
    return said


def ids_in_redrive(planned: PlannedRun) -> dict[str, dict[int, int]]:
    """Ids in the redrive, by run and by id in that run."""
    found: dict[str, dict[int, int]] = {}
    for line in planned.plan.shards.to_pylist():
        old = IdRuns.of_json(line["aside"]).ids()
        new = line["number"] << ROW_BITS | row_of(old)
        pairs = zip(old.tolist(), new.tolist(), strict=True)
        found.setdefault(line["origin_run"], {}).update(pairs)
    return found


def words_of(line: dict[str, Any]) -> Words:
    """A row's history, with what its line says now as the last.

    Of runs one after another that say the same, as of a redrive each night, the first and the last
    stay: the history is handed on by each.
    """
    earlier: Words = json.loads(line.get("history") or "[]")
    now = {name: line[name] for name in WORDS}
    reasons = [[each[name] for name in REASON] for each in (*earlier[-2:], now)]
    if len(reasons) == 3 and reasons[0] == reasons[1] == reasons[2]:
        earlier = earlier[:-1]
    return [*earlier, now]
