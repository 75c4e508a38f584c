"""What became of a batch's rows, kept while the batch is split for the sake of a bad one."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tasks.protocol.batch import ROW

Outcome = Any
"""An answer, or the error that sets the row aside."""
Key = tuple[int, int]
"""A row's id, and which of its children it is."""


@dataclass
class Memory:
    """Asks once for each row, where asking costs time or money.

    A batch with a bad row is called again in halves, until that row is alone: those calls get
    what is known. The first batch with unknown rows replaces it, so one batch is kept at most.
    """

    ask: Callable[[pa.Table], list[Outcome]]
    """One outcome for each row, in order."""
    known: dict[Key, Outcome] = field(default_factory=dict)

    def answers(self, rows: pa.Table) -> list[Any]:
        """One answer for each row.

        Raises:
            Exception: what sets the first bad row aside.
        """
        keys = keys_of(rows)
        if keys is None:
            return settled(self.ask(rows))
        if not all(key in self.known for key in keys):
            self.known = dict(zip(keys, self.ask(rows), strict=True))
        return settled([self.known[key] for key in keys])


def keys_of(rows: pa.Table) -> list[Key] | None:
    """What tells the rows of a job apart; None for rows without ids, of no job."""
    if ROW not in rows.column_names:
        return None
    seen: Counter[int] = Counter()
    keys = []
    for row in rows[ROW].to_pylist():
        keys.append((row, seen[row]))
        seen[row] += 1
    return keys


def settled(outcomes: list[Outcome]) -> list[Any]:
    """The outcomes, if all are answers.

    Raises:
        Exception: the first that is none.
    """
    for each in outcomes:
        if isinstance(each, Exception):
            raise each
    return outcomes
