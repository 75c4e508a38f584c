"""Follows the source's columns through steps and model to the output, as far as they are known."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.gates.gate import check_columns
from tasks.kinds.likest import did_you_mean
from tasks.kinds.models.output_names import refuse_taken
from tasks.planning.words_among_numbers import words_told
from tasks.protocol.batch import RESERVED
from tasks.ray_job.stage_functions import is_kept
from tasks.spec import BatchInferenceSpec

PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""Written by pandas beside its columns, as a rule unasked; it is not published."""


def refuse_unknown_columns(
    spec: BatchInferenceSpec, reader: dict[str, Any], lasting: Sequence[str] = ()
) -> None:
    """See that steps, model, sink and gates find the columns that the spec names.

    After a step or a model whose columns only its code knows, nothing is said.

    Args:
        spec: says what is read.
        reader: what the source has pinned.
        lasting: columns that the output has, whatever these inputs lack.

    Raises:
        InvalidSpec: a column is not there, or two would have one name.
    """
    known = spec.source.schema_of_rows(reader)
    for at, step in enumerate(spec.steps):
        if known is None:
            return
        part = f"steps.{at}"
        for field, names in step.reads.items():
            refuse_missing(f"{part}.{field}", step.kind, names, known)
        with words_told(known, step.reads):
            known = step.schema_after(known)
        refuse_twice(part, step.kind, known.names if known else [])
    if known is not None:
        model = spec.model
        for field, names in model.reads.items():
            refuse_missing(f"model.{field}", model.kind, names, known)
        with words_told(known, model.reads):
            model.refuse_types(known)
        if model.output_columns is not None:
            refuse_unpublished(spec, known.names, model.output_columns, lasting)
            refuse_unjudged(spec, known, model.output_columns)


def schema_before_model(spec: BatchInferenceSpec, reader: dict[str, Any]) -> pa.Schema | None:
    """Columns that the model is given; None where only a step's code knows them.

    Args:
        spec: says what is read.
        reader: what the source has pinned.
    """
    known = spec.source.schema_of_rows(reader)
    for step in spec.steps:
        known = None if known is None else step.schema_after(known)
    return known


def columns_before_model(spec: BatchInferenceSpec, reader: dict[str, Any]) -> set[str]:
    """Names that columns of the source and of steps have had, as far as they are known.

    Args:
        spec: says what is read.
        reader: what the source has pinned.
    """
    known, names = spec.source.schema_of_rows(reader), set[str]()
    for step in spec.steps:
        if known is None:
            return names
        names |= {*known.names}
        known = step.schema_after(known)
    return names | {*(known.names if known is not None else ())}


def refuse_reserved(spec: BatchInferenceSpec, reader: dict[str, Any]) -> None:
    """See that no column of the source has a name that is kept for ours.

    Args:
        spec: says what is read.
        reader: what the source has pinned.

    Raises:
        InvalidSpec: one has.
    """
    for name in (spec.source.schema_of_rows(reader) or pa.schema([])).names:
        if name.startswith(RESERVED) and not PANDAS_INDEX.fullmatch(name):
            problem = f"is a column of the source, but names with {RESERVED} are reserved: list "
            raise InvalidSpec.at(
                "source.columns", name, problem + "the other columns, or rename it there"
            )


def refuse_missing(field: str, kind: str, names: list[str], known: pa.Schema) -> None:
    """Raise InvalidSpec where a part of the spec reads a column that is not there."""
    for name in names:
        if name not in known.names:
            way_out = of_a_struct(name, known) or did_you_mean(name, known.names)
            there = f"the columns at that point: {', '.join(known.names)}{way_out}"
            raise InvalidSpec.at(field, name, f"is read by {kind} but is not among {there}")


def refuse_unpublished(
    spec: BatchInferenceSpec,
    known: list[str],
    made: tuple[str, ...],
    lasting: Sequence[str] = (),
) -> None:
    """See that the output has the columns that sink and gates name.

    Args:
        spec: names them.
        known: columns that the model is given.
        made: columns that it adds.
        lasting: columns that the output has. Rows that lack one have nothing there, which says
            nothing of a folder or a key.

    Raises:
        InvalidSpec: it has not, or the model adds one that is there already.
    """
    if not (spec.source.has_media and spec.model.preprocesses):
        refuse_taken(made, known)  # else the column may be one of media that the model never sees
    kept = spec.sink.keep_columns
    every = [*known, *made]
    refuse_absent("sink.keep_columns", kept or [], every, every)
    published = every if kept is None else [*dict.fromkeys([*kept, *made])]
    there = [*dict.fromkeys([*published, *lasting])]
    for field, names in spec.sink.reads.items():
        refuse_absent(f"sink.{field}", names, there if field == "types" else published, every)
    for at, gate in enumerate(spec.gates):
        for field, name in gate.columns.items():
            refuse_absent(f"gates.{at}.{field}", [name], there, every)


def refuse_unjudged(spec: BatchInferenceSpec, known: pa.Schema, made: tuple[str, ...]) -> None:
    """See that gates can judge those columns of the output that the model is given, by their types.

    Args:
        spec: has the gates.
        known: columns that the model is given.
        made: columns that it adds.

    Raises:
        InvalidSpec: one cannot; else the first batch would say so.
    """
    other = {*made, *spec.sink.types}
    kept = [each for each in known if is_kept(spec, each) and each.name not in other]
    reads = {str(at): [*gate.columns.values()] for at, gate in enumerate(spec.gates)}
    with words_told(known, reads):
        check_columns(spec.gates, pa.schema(kept), may_come=True)


def refuse_absent(field: str, names: list[str], published: list[str], every: list[str]) -> None:
    """Raise InvalidSpec where a field names a column that the output will not have."""
    for name in names:
        if name not in published:
            keep = "; add it to sink.keep_columns"
            way_out = keep if name in every else did_you_mean(name, published)
            there = f"the columns of the output: {', '.join(published)}{way_out}"
            raise InvalidSpec.at(field, name, f"is not among {there}")


def of_a_struct(name: str, known: pa.Schema) -> str:
    """The way out where a name is that of a field within a column; or nothing."""
    column, _, field = name.partition(".")
    if not field or column not in known.names or not pa.types.is_struct(known.field(column).type):
        return ""
    return (
        f"; a field of the struct {column} is not a column: add a step of kind python that makes "
        "it one"
    )


def refuse_twice(part: str, kind: str, after: list[str]) -> None:
    """Raise InvalidSpec where a step would leave two columns of one name."""
    if twice := sorted(name for name, times in Counter(after).items() if times > 1):
        problem = f"would name two columns after {kind}: rename or drop one before it"
        raise InvalidSpec.at(part, twice[0], problem)
