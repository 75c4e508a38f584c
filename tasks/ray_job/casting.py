"""Rows in the output's schema, where that changes no more than how a value is held."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import SchemaMismatch
from tasks.kinds import lossless
from tasks.kinds.column_types import is_any_list, is_text
from tasks.kinds.mixed_tensors import held_as
from tasks.kinds.sources.source import schema_of
from tasks.kinds.steps import AnyStep, RenameStep
from tasks.ray_job.job import Job
from tasks.ray_job.new_columns import with_all
from tasks.ray_job.untyped import is_untyped, typed
from tasks.spec import BatchInferenceSpec

MISFIT = (
    "a batch does not fit sink.types, the schema of the first batch, or that of the published rows"
)
WAYS_OUT = (
    "give the column one type in all runs with sink.types, a step or, for CSV, JSON Lines and "
    "Parquet, source.types, and publish rows of another type again with --replace-output"
)


def cast(job: Job, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in the run's schema.

    Raises:
        SchemaMismatch: names the columns, what they are and what they should be.
    """
    if rows.schema.equals(schema):
        return rows
    if job.spec.sink.takes_new_columns:
        rows = with_all(rows, schema)
    if set(rows.column_names) != set(schema.names):
        more = sorted(set(rows.column_names) - set(schema.names))
        fewer = sorted(set(schema.names) - set(rows.column_names))
        sparse = "; a key that no row may have needs a type in source.types" if fewer else ""
        told = [f"has columns {more} that the first batch did not have"] if more else []
        told += [f"lacks {fewer}"] if fewer else []
        raise SchemaMismatch(
            f"a batch {', and '.join(told)}: make every batch return the same columns; if the "
            "published rows do not have these, "
            f"{for_new(job.spec)}{sparse if hasattr(job.spec.source, 'types') else ''}"
        )
    rows = rows.select(schema.names)
    refuse_guesses(job, rows, schema)
    refuse_untyped(rows, schema)
    try:
        columns = [lossless.cast(held_as(rows[each.name], each.type), each.type) for each in schema]
        return pa.table(columns, schema.names).cast(schema)
    except (ValueError, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"{MISFIT}: {differences(rows.schema, schema)}: {error}; {WAYS_OUT}"
        ) from error


def for_new(spec: BatchInferenceSpec) -> str:
    """What to do of columns that come after others were published."""
    is_table = spec.sink.as_table() is not None
    evolve = "add them to the table (sink.evolve_schema: true), " if is_table else ""
    by = "source.columns" if hasattr(spec.source, "columns") else "a step select"
    return f"{evolve}stop reading them ({by}), or publish everything again with --replace-output"


def for_lacking(spec: BatchInferenceSpec) -> str:
    """What to do of rows that lack columns which others were published with."""
    is_table = spec.sink.as_table() is not None
    evolve = "let rows lack them (sink.evolve_schema: true), " if is_table else ""
    read = "give their types in source.types, " if spec.source.kind == "jsonl" else ""
    if getattr(spec.source, "columns", None):
        read = "list them in source.columns if the inputs have them, "
    return f"{evolve}{read}add them in a step, or publish everything again with --replace-output"


def refuse_guesses(job: Job, rows: pa.Table, wanted: pa.Schema) -> None:
    """See that nothing which a source took for a value becomes text, nor its times UTC's.

    Text such as 00501 it took for the number 501 where it had seen nothing else.

    Raises:
        SchemaMismatch: a column would.
    """
    guessed = guessed_types(job)
    for has, wants in zip(rows.schema, wanted, strict=True):
        if has.type not in guessed.get(has.name, ()) or rows[has.name].null_count == len(rows):
            continue
        if becomes_text(rows[has.name], wants.type) or zone(has.type) != zone(wants.type):
            raise SchemaMismatch(
                f"{MISFIT}: {has.name} is {has.type}, not {wants.type}, and neither converts to "
                f"the other; {WAYS_OUT}"
            )


def becomes_text(column: pa.ChunkedArray, wanted: pa.DataType) -> bool:
    """Whether numbers, truth values or times in a column, or within its values, are to be text."""
    has = column.type
    if column.null_count == len(column):
        return False
    if pa.types.is_struct(has) and pa.types.is_struct(wanted):
        fields = {each.name: each.type for each in wanted}
        names = [each.name for each in has if each.name in fields]
        return any(becomes_text(pc.struct_field(column, name), fields[name]) for name in names)
    if is_any_list(has) and is_any_list(wanted):
        return becomes_text(pc.list_flatten(column), wanted.value_type)
    return is_value(has) and is_text(wanted)


def refuse_untyped(rows: pa.Table, wanted: pa.Schema) -> None:
    """See that nothing becomes text only because nobody knew a type when the output was published.

    Raises:
        SchemaMismatch: a column would.
    """
    for has, wants in zip(rows.schema, wanted, strict=True):
        if is_told_late(has, wants) and rows[has.name].null_count < len(rows):
            raise told_late(has, wants)


def is_told_late(has: pa.Field, wants: pa.Field) -> bool:
    """Whether a column has a type, and was text for want of one when the output was published."""
    return is_untyped(wants) and not typed(wants, has.type).equals(wants)


def told_late(has: pa.Field, wants: pa.Field) -> SchemaMismatch:
    """What to say of such a column."""
    return SchemaMismatch(
        f"{has.name} had no value, or lacked some inside, in the published rows and got the type "
        f"{wants.type}; here it is {has.type}: publish everything again with --replace-output; "
        "sink.types sets its type before there are values"
    )


def refuse_unfit(guessed: pa.Schema, published: pa.Schema) -> None:
    """See that what a source has taken values for can be what is published, before any is written.

    Args:
        guessed: columns that are kept, of types that their values have told.
        published: the output's.

    Raises:
        SchemaMismatch: a column cannot: no batch with a value of it would be written.
    """
    known = {each.name: each for each in published}
    for has in guessed:
        wants = known.get(has.name, has)
        if is_told_late(has, wants):
            raise told_late(has, wants)
        would_be_text = is_value(has.type) and is_text(wants.type)
        keeps = lossless.keeps_values(has.type, wants.type, all_fields=True)
        if would_be_text or zone(has.type) != zone(wants.type) or not keeps:
            raise SchemaMismatch(
                f"{has.name} is {has.type} in the inputs but {wants.type} in the published rows, "
                f"and neither converts to the other; {WAYS_OUT}"
            )


def zone(kind: pa.DataType) -> str | None:
    """The zone of times."""
    found: str | None = kind.tz if pa.types.is_timestamp(kind) else None
    return found


def is_value(kind: pa.DataType) -> bool:
    """Whether a type's values are numbers, truth values or times."""
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def guessed_types(job: Job) -> dict[str, set[pa.DataType]]:
    """Types of columns that the source has taken from its first rows, by their names after steps.

    A redrive reads its rows as the runs did that set them aside.
    """
    given = getattr(job.spec.source, "types", {})
    found: dict[str, set[pa.DataType]] = {}
    for reader in (job.pins.get("reader"), *job.pins.get("readers", {}).values()):
        if not job.spec.source.guesses_types or not reader or not reader.get("schema"):
            continue
        for each in schema_of(reader["schema"]):
            if each.name not in given:
                found.setdefault(name_after(job.spec.steps, each.name), set()).add(each.type)
    return found


def name_after(steps: Sequence[AnyStep], name: str) -> str:
    """What a column of the source is called after steps."""
    for step in steps:
        name = step.new_name(name) if isinstance(step, RenameStep) else name
    return name


def differences(found: pa.Schema, wanted: pa.Schema) -> str:
    """Columns of other types than they should be."""
    return "; ".join(
        f"{has.name} is {has.type}, not {wants.type}"
        for has, wants in zip(found, wanted, strict=True)
        if has.type != wants.type
    )
