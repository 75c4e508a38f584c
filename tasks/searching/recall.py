"""How much of the exact answer an index finds, and how much of it has to be looked at for that."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tasks.searching.index import IndexedVectors
from tasks.searching.matrix import as_matrix
from tasks.searching.scoring import Best, Vector, unit

QUERIES = 64
NEIGHBOURS = 10
ROWS_AT_ONCE = 8_192
SLACK = 1e-6
"""Equal scores count as equal, however they were rounded."""


def fitted(indexed: IndexedVectors, wanted: float) -> IndexedVectors:
    """The index with the least work by which it finds as much as is wanted.

    Args:
        indexed: all of it is in the index.
        wanted: share of the nearest rows, on average over some published vectors as queries.
    """
    queries = sampled(indexed)
    bounds = tenth_best(indexed, queries)
    groups = 1
    while True:
        recall = recall_of(indexed, queries, bounds, groups)
        if recall >= wanted or groups >= indexed.state.groups:
            state = replace(indexed.state, looked_at=groups, recall=round(recall, 4))
            return replace(indexed, state=state)
        groups = min(2 * groups, indexed.state.groups)


def sampled(indexed: IndexedVectors) -> list[Vector]:
    """What lies halfway between two of the vectors, the same each time.

    Such queries are farther from any vector than one that is published, which finds itself.
    """
    random = np.random.default_rng(0)
    total = indexed.dataset.count_rows()
    if total == 0:
        return []
    at = random.choice(total, 2 * QUERIES)
    vectors = indexed.dataset.take(at.tolist(), columns=["vector"])["vector"].to_pylist()
    units = [unit(vector) for vector in vectors]
    between = [a + b for a, b in zip(units[::2], units[1::2], strict=True)]
    return [unit(each) for each in between if np.abs(each).max() > SLACK]


def tenth_best(indexed: IndexedVectors, queries: list[Vector]) -> Vector:
    """The score of each query's tenth best row, each vector looked at; less where there are fewer.

    Returns:
        Cosines of single precision, (queries,).
    """
    wanted = np.array(queries, np.float32).T
    best = np.full((NEIGHBOURS, len(queries)), -np.inf, np.float32)
    kind = indexed.dataset.schema.field("vector").type
    for batch in indexed.dataset.to_batches(columns=["vector"], batch_size=ROWS_AT_ONCE):
        vectors, _ = as_matrix(pa.chunked_array([batch["vector"]]), kind.list_size, kind)
        single = vectors.astype(np.float32, copy=False)
        lengths = np.sqrt(np.einsum("ij,ij->i", single, single))
        cosines = (single @ wanted) / lengths[:, None]
        best = np.partition(np.concatenate([best, cosines]), -NEIGHBOURS, axis=0)[-NEIGHBOURS:]
    return np.asarray(best.min(axis=0), np.float64)


def recall_of(indexed: IndexedVectors, queries: list[Vector], bounds: Vector, groups: int) -> float:
    """Share of the nearest rows that are found."""
    shares = []
    for query, bound in zip(queries, bounds.tolist(), strict=True):
        best = Best(NEIGHBOURS)
        indexed.add_indexed(query, best, groups)
        there = min(NEIGHBOURS, indexed.dataset.count_rows())
        shares.append(float((best.scores >= bound - SLACK).sum()) / there)
    return float(np.mean(shares)) if shares else 1.0
