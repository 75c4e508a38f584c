"""Keeps rows for which an expression is true."""

import ast
import re
from functools import lru_cache, partial
from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds import expression
from tasks.kinds.column_types import has_no_value
from tasks.kinds.columns import is_blank, visible
from tasks.kinds.condition_evaluation import NO_CONDITION, holding
from tasks.kinds.condition_tree import tree_of
from tasks.kinds.sql_habits import with_python_instead
from tasks.kinds.steps.step import Function, Step

NO_KERNEL = re.compile(r"Function '(\w+)' has no kernel matching input types \((.*)\)")


class FilterStep(Step):
    """Keeps rows for which an expression is true; null counts as false."""

    model_config = ConfigDict(title="Filter")
    kind: Literal["filter"] = "filter"
    expression: str = Field(
        min_length=1,
        description="As in: width >= 32 and label not in ('cat', 'dog') and text is not None. "
        "Column names (`in backticks` if they are not plain words), numbers, strings, "
        "date('2026-01-31'), timestamp('2026-01-31T12:00'), + - * /, comparisons, and, or, not, "
        "in. In n != 0 and total / n > 5, the division is done only where n is not 0.",
    )

    def check(self) -> None:
        """See that the expression can be read."""
        try:
            expression.parse(self.expression)
        except ValueError as error:
            problem = with_python_instead(self.expression, str(error))
            raise InvalidSpec.at("steps.filter.expression", self.expression, problem) from error

    @property
    def reads(self) -> dict[str, list[str]]:
        """The columns that the expression names."""
        return {"expression": sorted(expression.parse(self.expression)[1])}

    def schema_after(self, schema: pa.Schema) -> pa.Schema:
        """The same."""
        self.refuse_misfit(pa.schema([schema.field(name) for name in self.reads["expression"]]))
        return schema

    def build(self) -> Function:
        """The step as a function."""
        tree = tree_of(self.expression)
        return partial(self.keep, tree, self.reads["expression"])

    def keep(self, tree: ast.expr, names: list[str], rows: pa.Table) -> pa.Table:
        """Rows for which the expression is true, with their ids.

        Args:
            tree: the expression, read once for all batches.
            names: the columns that it names.
            rows: a batch.

        Raises:
            UserCodeBroke: a column is not there.
            InvalidSpec: one is of a type that does not fit.
            pyarrow.ArrowInvalid: a row's values cannot be computed, as in a division by zero.
        """
        have = visible(rows)
        if missing := [name for name in names if name not in have]:
            raise UserCodeBroke(f"filter: {missing} are not among the columns {have}")
        given = rows.select(names)
        try:
            is_kept = holding(tree, given)
        except (pa.ArrowException, ValueError):
            blank = without_text(given)
            # By what the batch holds, whatever the first rows had.
            self.refuse_misfit(pa.schema(zip(names, blank.schema.types, strict=True)))
            if blank.schema == given.schema:
                raise
            is_kept = holding(tree, blank)
        return rows.filter(pa.array(is_kept))

    def refuse_misfit(self, schema: pa.Schema) -> None:
        """See that the expression can be computed of the columns' types, whatever the values are.

        Args:
            schema: of the columns that it names.

        Raises:
            InvalidSpec: it cannot.
        """
        kinds = [pa.null() if has_no_value(each) else each.type for each in schema]
        problem = misfit(self.expression, tuple(zip(schema.names, kinds, strict=True)))
        if problem is not None:
            types = ", ".join(f"{each.name}: {each.type}" for each in schema)
            said = f"does not fit {types}: {problem}"
            raise InvalidSpec.at("steps.filter.expression", self.expression, said)


@lru_cache(maxsize=100)  # of one batch thousands of rows may be tried one by one
def misfit(condition: str, columns: tuple[tuple[str, pa.DataType], ...]) -> str | None:
    """Why a condition cannot be computed of columns of some types; None where it can."""
    # Of a row: of none, time zones would not show.
    row = pa.table([pa.nulls(1, kind) for _, kind in columns], [name for name, _ in columns])
    try:
        row.filter(expression.build_over(tree_of(condition), row.schema)[0])
    except (pa.ArrowException, ValueError) as error:
        return in_words(str(error))
    return None


def without_text(rows: pa.Table) -> pa.Table:
    """Rows in which a column of texts that has none is one without values: it fits anything."""
    for at, name in enumerate(rows.column_names):
        if is_blank(rows[at]):
            rows = rows.set_column(at, name, pa.nulls(len(rows)))
    return rows


def in_words(said: str) -> str:
    """What Arrow says of a condition that it cannot compute, without its own names."""
    if NO_CONDITION in said:
        return "it is not a condition (true or false for each row); add a comparison, such as > 0"
    return NO_KERNEL.sub(r"\1 does not exist for \2", said)
