"""Sees in the plan what the write would refuse: columns that cannot be what is published."""

from typing import Any

import pyarrow as pa

from tasks.errors import SchemaMismatch
from tasks.kinds.column_types import has_no_value
from tasks.kinds.steps import RenameStep, SelectStep
from tasks.planning.known_columns import schema_before_model
from tasks.ray_job.casting import for_lacking, for_new, refuse_unfit
from tasks.ray_job.stage_functions import is_kept
from tasks.ray_job.untyped import has_text
from tasks.spec import BatchInferenceSpec

KEEP_ROWS = RenameStep, SelectStep
"""Steps that leave out no row: others may leave out all that have a value."""
HAS_VALUES = {b"values": b"some"}
"""Metadata of columns in which the source has seen values; it goes with them through steps."""


def refuse_unpublishable(
    spec: BatchInferenceSpec, reader: dict[str, Any] | None, published: bytes | None
) -> None:
    """See that kept columns can be what is published: by name, and by types that values tell.

    A column of a file that says its types may have no value at all, and then fits any; and what
    only code knows is left to the write.

    Args:
        spec: says what is read, and what is kept.
        reader: what the source has pinned; None of a redrive, whose rows were read by several.
        published: the output's schema; None where the run need not fit it.

    Raises:
        SchemaMismatch: a column cannot; names it, and the ways out.
    """
    if published is None or reader is None:
        return
    wanted = pa.ipc.read_schema(pa.py_buffer(published))
    made = spec.model.output_columns
    refuse_other_columns(spec, reader, wanted.names, made)
    if made is None:
        return
    left = columns_with_values(spec, reader)
    kept = [each for each in left if is_kept(spec, each) and each.name not in made]
    refuse_unfit(pa.schema(kept), wanted)


def lasting_columns(spec: BatchInferenceSpec, published: bytes | None) -> list[str]:
    """Columns that the output has, whatever a run's inputs lack: their rows have nothing there."""
    if published is None or not spec.sink.takes_new_columns:
        return []
    return pa.ipc.read_schema(pa.py_buffer(published)).names


def refuse_other_columns(
    spec: BatchInferenceSpec,
    reader: dict[str, Any],
    published: list[str],
    made: tuple[str, ...] | None,
) -> None:
    """See that source and model bring the columns that are published, unless the output grows.

    Args:
        spec: says what is read, and what is kept.
        reader: what the source has pinned.
        published: columns.
        made: those that the model makes; None where only it knows.

    Raises:
        SchemaMismatch: they bring others, or not all; names them, and the ways out.
    """
    if spec.sink.takes_new_columns or spec.source.has_media:
        return
    known = schema_before_model(spec, reader)
    if known is None:
        return
    kept = [each.name for each in known if is_kept(spec, each)]
    if new := [name for name in kept if name not in {*published, *(made or ())}]:
        raise SchemaMismatch(
            f"the inputs have columns {new}, which the published rows do not have: {for_new(spec)}"
        )
    if made is not None and (gone := [e for e in published if e not in {*kept, *made}]):
        raise SchemaMismatch(
            f"the inputs do not have the columns {gone} of the published rows: {for_lacking(spec)}"
        )


def columns_with_values(spec: BatchInferenceSpec, reader: dict[str, Any]) -> list[pa.Field]:
    """Columns before the model that have values for certain."""
    given = getattr(spec.source, "types", {})
    known = spec.source.schema_of_rows(reader)
    if known is None or not spec.source.guesses_types:
        return []
    told = [each.name not in given and has_values(each) for each in known]
    marks = (HAS_VALUES if is_told else None for is_told in told)
    after = pa.schema([each.with_metadata(mark) for each, mark in zip(known, marks, strict=True)])
    for step in spec.steps:
        if not isinstance(step, KEEP_ROWS):
            return []
        after = step.schema_after(after) or pa.schema([])
    return [each for each in after if each.metadata == HAS_VALUES]


def has_values(each: pa.Field) -> bool:
    """Whether a column has values for certain, and all that is within it.

    Text within may be there only for want of a value, as where all lists are empty.
    """
    is_sure = not has_text(each.type) or not pa.types.is_nested(each.type)
    return is_sure and not has_no_value(each)
