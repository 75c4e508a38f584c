"""Follows the source's columns through the steps, as far as what each step declares is known."""

from difflib import get_close_matches
from typing import Any

from tasks.errors import InvalidSpec
from tasks.spec import BatchInferenceSpec


def refuse_unknown_columns(spec: BatchInferenceSpec, reader: dict[str, Any]) -> None:
    """See that steps and model find the columns that the spec has them read.

    After a step whose columns only its code knows, nothing is said.

    Args:
        spec: says what is read.
        reader: what the source has pinned.

    Raises:
        InvalidSpec: a column is not there, or two would bear one name.
    """
    known = spec.source.columns_of_rows(reader)
    for at, step in enumerate(spec.steps):
        if known is None:
            return
        part = f"steps.{at}"
        for field, names in step.reads.items():
            refuse_missing(f"{part}.{field}", step.kind, names, known)
        known = step.columns_after(known)
        refuse_twice(part, step.kind, known or [])
    if known is not None:
        model = spec.model
        refuse_missing(f"model.{model.input_field}", model.kind, model.input_columns, known)


def refuse_missing(field: str, kind: str, names: list[str], known: list[str]) -> None:
    """Raise InvalidSpec where a part of the spec reads a column that is not there."""
    for name in names:
        if name not in known:
            meant = get_close_matches(name, known, n=1)
            hint = f"; did you mean {meant[0]}?" if meant else ""
            there = f"the columns at that point: {', '.join(known)}{hint}"
            raise InvalidSpec.at(field, name, f"is read by {kind} and is not among {there}")


def refuse_twice(part: str, kind: str, after: list[str]) -> None:
    """Raise InvalidSpec where a step would leave two columns of one name."""
    if twice := sorted({name for name in after if after.count(name) > 1}):
        problem = f"would be the name of two columns after {kind}: rename or drop one before it"
        raise InvalidSpec.at(part, twice[0], problem)
