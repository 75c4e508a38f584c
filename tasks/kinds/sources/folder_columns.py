"""Columns that are folders, as in `class=cat/`: all rows of a file have one value of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from tasks.errors import InvalidSpec, shown
from tasks.kinds.hive import folder_names, value_of
from tasks.kinds.sources.given_types import ARROW, CsvType
from tasks.protocol.object_stat import Stat


def folder_columns(path: str, types: Mapping[str, CsvType]) -> dict[str, pa.Scalar]:
    """The columns that a file's folders are, with the one value that all of its rows have.

    Raises:
        ValueError: it lies in no folder of a column, or in one whose name is no value of its type.
    """
    named = folder_names(path.rpartition("/")[0])
    if missing := [name for name in types if name not in named]:
        raise ValueError(f"the file is not in a folder {missing[0]}=...")
    return {name: folder_column(name, named[name], kind) for name, kind in types.items()}


def refuse_no_folder(inputs: Sequence[Stat], names: Iterable[str]) -> None:
    """See that some input lies in a folder of each column, where there are inputs.

    Raises:
        InvalidSpec: of one column none does, and all rows would be set aside.
    """
    for name in names if inputs else ():
        if not any(name in folder_names(each.path.rpartition("/")[0]) for each in inputs):
            first = inputs[0].path
            found = [each for each in folder_names(first.rpartition("/")[0]) if each]
            there = ", ".join(found) or "none"
            problem = f"is not among the folders of any input; those of {shown(first)}: {there}"
            raise InvalidSpec.at("source.partition_columns", name, problem)


def folder_column(name: str, written: str, kind: CsvType) -> pa.Scalar:
    """The value of one of them.

    Raises:
        ValueError: it is none of this type.
    """
    try:
        return pa.scalar(value_of(written), pa.string()).cast(ARROW[kind])
    except ValueError as error:
        way_out = "rename the folder, or give the column another type in source.partition_columns"
        raise ValueError(
            f"the folder {name}={written} is not of type {kind}: {error}; {way_out}"
        ) from error


def without(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Columns less some."""
    return pa.schema([each for each in schema if each.name not in names])


def beside(rows: pa.Table, values: dict[str, pa.Scalar]) -> pa.Table:
    """Rows with further columns, each of one value."""
    for name, value in values.items():
        rows = rows.append_column(name, pa.repeat(value, len(rows)))
    return rows
