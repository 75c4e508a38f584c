"""Which rows a condition is true for, as Python would find out.

Of `and` and `or` a part is computed only for the rows that the parts before it leave open: what
follows `n != 0 and` may divide by n.
"""

import ast

import numpy as np
import pyarrow as pa

from tasks.kinds.expression import build_over

POSITION = "__position"


def holding(node: ast.expr, rows: pa.Table) -> np.ndarray:
    """Whether a condition, or a part of one, is true, row by row; an empty result is not.

    Args:
        node: as `tasks.kinds.condition_tree.tree_of` gives it.
        rows: the columns that it names.

    Raises:
        ValueError: it cannot be read.
        pyarrow.ArrowException: it does not fit the columns' types, or cannot be computed of a
            row's values, as in a division by zero.
    """
    if not isinstance(node, ast.BoolOp):
        return computed(node, rows)
    is_and = isinstance(node.op, ast.And)
    found = np.full(len(rows), is_and)
    for part in node.values:
        is_open = found == is_and
        left = rows if is_open.all() else rows.filter(pa.array(is_open))
        found[is_open] = holding(part, left)
    return found


def computed(node: ast.expr, rows: pa.Table) -> np.ndarray:
    """The same of a part that Arrow computes as a whole."""
    condition, names = build_over(node, rows.schema)
    numbered = rows.select(sorted(names))  # what is filtered is copied
    numbered = numbered.append_column(POSITION, pa.array(np.arange(len(rows))))
    found = np.zeros(len(rows), bool)
    found[numbered.filter(condition)[POSITION].to_numpy()] = True
    return found
