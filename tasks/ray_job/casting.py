"""Rows in the output's schema, where that changes no more than how a value is held."""

import pyarrow as pa

from tasks.errors import SchemaMismatch
from tasks.kinds.column_types import is_text
from tasks.kinds.sources.source import schema_of
from tasks.ray_job.job import Job

WAYS_OUT = (
    "give the column one type in all runs, by a step or, of CSV and JSON Lines, source.types, or "
    "publish all anew with --replace-output"
)


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
            "make every batch return the same columns; where it is what is published that has not "
            "these, name others in sink.keep_columns, or publish all anew with --replace-output"
        )
    rows = rows.select(schema.names)
    refuse_loss(job, rows, schema)
    try:
        return rows.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            "a batch does not fit the schema of the first one, or of what is published: "
            f"{differences(rows.schema, schema)}: {error}; {WAYS_OUT}"
        ) from error


def refuse_loss(job: Job, rows: pa.Table, wanted: pa.Schema) -> None:
    """See that no text becomes a number or a time, nor what a source took for one becomes text.

    Of text such as 00501 the number is 501: Arrow would say nothing of it. A column without any
    value loses none.

    Raises:
        SchemaMismatch: a column would.
    """
    guessed = guessed_types(job)
    for has, wants in zip(rows.schema, wanted, strict=True):
        if rows[has.name].null_count == len(rows):
            continue
        becomes_value = is_text(has.type) and is_value(wants.type)
        becomes_text = guessed.get(has.name) == has.type and is_text(wants.type)
        if becomes_value or (becomes_text and is_value(has.type)):
            raise SchemaMismatch(
                "a batch does not fit the schema of the first one, or of what is published: "
                f"{has.name} is {has.type}, not {wants.type}, and neither is made of the other; "
                f"{WAYS_OUT}"
            )


def is_value(kind: pa.DataType) -> bool:
    """Whether a type's values are numbers, truth values or times."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


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
