"""What was said of rows that a redrive sets aside again: it stays with them."""

import json
import logging
from functools import cache, partial
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.plan import PlannedRun
from tasks.protocol.asked_at_once import fetched
from tasks.protocol.ids import ROW_BITS, IdRuns, Ids, row_of
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.read_back import decoded
from tasks.protocol.rewriting import AmendRows, read_published
from tasks.ray_job.writing import QUARANTINE, QUARANTINE_SCHEMA

logger = logging.getLogger(__name__)

REASON = ["stage", "error_type", "error_message"]
WORDS = ["run_id", *REASON]
SAID = {*WORDS, "history"}
"""Columns that are read: the rows themselves may be large."""
Words = list[dict[str, Any]]
Lines = list[dict[str, Any]]


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
    """What the quarantine says of each row that the redrive does, by its id in the redrive.

    Raises:
        FileNotFoundError: somebody has published meanwhile, and by that moved or removed a file.
    """
    new_ids, seen = ids_in_redrive(planned), planned.ledger.look()
    files = [file for file in seen.quarantine.values() if file.run_id in new_ids]
    said = {}
    # Of a year of nights there may be a file of each.
    for file, lines in zip(files, fetched(partial(lines_left, planned, seen), files), strict=True):
        for old_id, line in zip(file.ids.ids().tolist(), lines or (), strict=lines is not None):
            new_id = new_ids[file.run_id].get(old_id)
            if new_id is not None:
                said[new_id] = words_of(line)
    return said


def lines_left(planned: PlannedRun, seen: Snapshot, file: LedgerFile) -> Lines | None:
    """What a quarantine file says of its rows; None where others have damaged or removed it.

    That is logged: the rows are not lost.

    Raises:
        FileNotFoundError: somebody has published since the ledger was looked at.
    """
    try:
        return lines_of(planned, file)
    except (FileNotFoundError, InvalidSpec) as error:
        if planned.ledger.look().version != seen.version:
            raise
        logger.warning("the earlier reasons of rows set aside again are lost: %s", error)
        return None


def lines_of(planned: PlannedRun, file: LedgerFile) -> Lines:
    """What a quarantine file says of its rows.

    Raises:
        FileNotFoundError: it is gone.
        InvalidSpec: it is not as it was published.
    """

    def lines(content: bytes) -> Lines:
        rows = QUARANTINE.decode(content)
        found: Lines = rows.select(SAID.intersection(rows.column_names)).to_pylist()
        if len(found) != file.rows:
            raise ValueError(f"it has {len(found)} rows, but {file.rows} were published")
        return found

    content = read_published(planned.storage, planned.output, file)
    return decoded(file.target(planned.output), content, lines, "Restore it from a copy")


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
