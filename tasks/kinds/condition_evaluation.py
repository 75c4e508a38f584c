"""Which rows a condition is true for, as Python would find out.

Of `and` and `or` a part is computed only for the rows that the parts before it leave open: what
follows `n != 0 and` may divide by n.
"""

import ast
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from tasks.kinds.expression import build_over

NO_CONDITION = "must evaluate to bool"
"""What Arrow says of a filter that is none."""


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
    kept = [condition_over(node, rows.schema)]
    plan = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
        acero.Declaration("project", acero.ProjectNodeOptions(kept, ["kept"])),
    ]
    # By one thread, which keeps the rows' order.
    found = acero.Declaration.from_sequence(plan).to_table(use_threads=False)["kept"]
    if not pa.types.is_boolean(found.type):
        raise ValueError(NO_CONDITION)
    return found.fill_null(False).to_numpy()


@lru_cache(maxsize=100)
def condition_over(node: ast.expr, schema: pa.Schema) -> pc.Expression:
    """A part of a condition, for Arrow; thousands of rows may come one by one to be looked at."""
    return build_over(node, schema)[0]
