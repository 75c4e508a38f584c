"""Rows of the source and what steps made of them: many of one lie side by side, under its id."""

import numpy as np
import pyarrow as pa

from tasks.protocol.batch import ROW


def cut(rows: pa.Table, size: int) -> tuple[pa.Table, pa.Table]:
    """The first so many rows with all their children, and the rest."""
    if size >= len(rows):
        return rows, rows.slice(len(rows))
    starts = parent_starts(rows)
    at = int(starts[min(size, len(starts) - 1)])
    return rows.slice(0, at), rows.slice(at)


def num_parents(rows: pa.Table) -> int:
    """Rows, where children of one row count once."""
    ids = rows[ROW].to_numpy()
    return int(np.count_nonzero(ids[1:] != ids[:-1])) + bool(len(ids))


def parent_starts(rows: pa.Table) -> np.ndarray:
    """Where each parent's rows begin, and the end."""
    ids = rows[ROW].to_numpy()
    turns = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    return np.concatenate([[0], turns, [len(ids)]]) if len(ids) else np.zeros(1, dtype=np.int64)
