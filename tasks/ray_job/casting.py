"""Rows in the output's schema, where that changes no more than how a value is held."""

import pyarrow as pa

from tasks.errors import SchemaMismatch
from tasks.kinds.column_types import is_text
from tasks.kinds.sources.source import schema_of
from tasks.ray_job.job import Job


def cast(job: Job, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in the run's schema.

    Raises:
        SchemaMismatch: names the columns, what they are and what they should be.
    """
    if rows.schema.equals(schema):
        return rows
    if set(rows.column_names) != set(schema.names):
        more = sorted(set(rows.column_names) - set(schema.names))
        fewer = sorted(set(schema.names) - set(rows.column_names))
        raise SchemaMismatch(
            f"a batch has columns {more} that the first batch had not, and lacks {fewer}: "
            "make every batch return the same columns"
        )
    rows = rows.select(schema.names)
    refuse_loss(job, rows.schema, schema)
    try:
        return rows.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"a batch does not fit the schema of the first one: {differences(rows.schema, schema)}:"
            f" {error}"
        ) from error


def refuse_loss(job: Job, found: pa.Schema, wanted: pa.Schema) -> None:
    """See that no text becomes a number or a time, nor what a source took for one becomes text.

    Of text such as 00501 the number is 501: Arrow would say nothing of it.

    Raises:
        SchemaMismatch: a column would.
    """
    guessed = guessed_types(job)
    for has, wants in zip(found, wanted, strict=True):
        if pa.types.is_null(has.type) or is_text(has.type) is is_text(wants.type):
            continue
        if is_text(has.type) or guessed.get(has.name) == has.type:
            asked = f"source.types: {{{has.name}: string}}" if guessed else "a step"
            raise SchemaMismatch(
                f"a batch does not fit the schema of the first one, or of what is published: "
                f"{has.name} is {has.type}, not {wants.type}: text and numbers are not made of "
                f"each other; give the column one type in all runs, as by {asked}, or publish all "
                "anew with --replace-output"
            )


def guessed_types(job: Job) -> dict[str, pa.DataType]:
    """Types of columns that the source has taken from its first rows, by the columns' names."""
    source, reader = job.spec.source, job.pins.get("reader") or {}
    given = getattr(source, "types", None)
    if given is None or not reader.get("schema"):
        return {}
    return {each.name: each.type for each in schema_of(reader["schema"]) if each.name not in given}


def differences(found: pa.Schema, wanted: pa.Schema) -> str:
    """Columns of other types than they should be."""
    return "; ".join(
        f"{has.name} is {has.type}, not {wants.type}"
        for has, wants in zip(found, wanted, strict=True)
        if has.type != wants.type
    )
