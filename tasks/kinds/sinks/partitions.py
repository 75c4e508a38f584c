"""Rows as one file for each combination of the partition columns' values."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.hive import NULL_FOLDER, hive_folder
from tasks.protocol.ids import Ids
from tasks.protocol.records import Part
from tasks.protocol.urls import is_path

Groups = list[tuple[list[object], npt.NDArray[np.int64]]]
"""Combinations of values, and the rows that have each."""
MAX_FOLDERS_PER_WRITE = 1_000
"""More are taken for a mistake, such as a column of ids."""
MIN_ROWS_PER_FOLDER = 100
"""On average: so many more folders may a write have that waits for so many rows."""
MAX_NAME_BYTES = 255
"""Of a folder's name, on the disks of Linux and macOS."""
MAX_PATH_BYTES = 900
"""Of S3's 1,024 for a key, which ends with the name of a file."""


def partitioned(
    rows: pa.Table,
    ids: Ids,
    by: list[str],
    encode: Callable[[pa.Table], bytes],
    suffix: str,
    inside: pa.Table | None,
    most: int,
) -> list[Part]:
    """One part for each combination of the partition columns' values.

    Args:
        rows: of all partitions.
        ids: of the rows.
        by: the partition columns.
        encode: makes a file of rows.
        suffix: of the files' names.
        inside: what the files hold of the rows; all columns but the partitions' where None.
        most: combinations that there may be.

    Raises:
        InvalidSpec: a column is not there, or has too many values, or one that is no folder.
    """
    field = "sink.partition_by"
    missing = [name for name in by if name not in rows.column_names]
    if missing:
        problem = f"are not among {rows.column_names}; add them to sink.keep_columns, or drop them"
        raise InvalidSpec.at(field, missing, problem)
    groups = group_rows(rows.select(by))
    refuse_unfit(groups, by, len(rows), most)
    rest = rows.drop_columns(by) if inside is None else inside
    if not rest.num_columns:  # such a file has no rows either
        problem = "leaves no column for the files: keep another one with sink.keep_columns"
        raise InvalidSpec.at(field, by, problem)
    # Taken at once: each time, Arrow would make one chunk of a column's many.
    rest = rest.take(pa.array(np.concatenate([at for _, at in groups]))) if groups else rest
    starts = np.cumsum([0, *(len(at) for _, at in groups)]).tolist()
    return [
        Part(
            encode(rest.slice(start, len(at))),
            suffix,
            ids[at],
            "".join(map(hive_folder, by, values)),
        )
        for start, (values, at) in zip(starts, groups, strict=False)
    ]


def refuse_unfit(groups: Groups, by: list[str], rows: int, most: int) -> None:
    """See that values can be folders, and are not more than a write may have.

    Raises:
        InvalidSpec: they cannot, or are.
    """
    field = "sink.partition_by"
    if len(groups) > most:
        problem = (
            f"makes {len(groups)} folders for {rows} rows, but a write can have at most {most}"
        )
        way_out = f"{MIN_ROWS_PER_FOLDER} times as many rows as there will be folders"
        way_out = f"use columns with fewer values, or set sink.rows_per_file to {way_out}"
        raise InvalidSpec.at(field, by, f"{problem}: {way_out}")
    if any(NULL_FOLDER in values for values, _ in groups):
        problem = f"has the text {NULL_FOLDER}, which as a folder means a missing value"
        raise InvalidSpec.at(field, by, f"{problem}: replace it in a step")


def most_folders(rows_per_file: int | None) -> int:
    """Folders that one write may have rows of.

    Args:
        rows_per_file: rows that a write waits for.
    """
    return max(MAX_FOLDERS_PER_WRITE, (rows_per_file or 0) // MIN_ROWS_PER_FOLDER)


def folders_of(rows: pa.Table, by: list[str]) -> set[str]:
    """Names of the folders that rows belong in."""
    names = [name for name in by if name in rows.column_names]
    return {"".join(map(hive_folder, names, each)) for each, _ in group_rows(rows.select(names))}


def refuse_long(output: str, partition: str) -> None:
    """Refuse folders that nothing can be moved into once the run is published.

    Raises:
        InvalidSpec: a name is longer than disks take, or a path than object stores do.
    """
    if is_path(output):
        length, limit = max(map(len, partition.encode().split(b"/"))), MAX_NAME_BYTES
    else:
        length, limit = len(f"{output}/{partition}".encode()), MAX_PATH_BYTES
    if length > limit:
        problem = (
            f"makes a name of {length} bytes, but at most {limit} are allowed: use columns with "
            "short values"
        )
        raise InvalidSpec.at("sink.partition_by", f"{partition[:60]}...", problem)


def group_rows(keys: pa.Table) -> Groups:
    """Each combination of values with the rows that have it, in order; each row is in one group.

    To look for rows equal to a value would find none for NaN, and -0.0 twice.

    Raises:
        InvalidSpec: a value is a time that Python has not.
    """
    codes = np.zeros(len(keys), dtype=np.int64)
    for column in keys.columns:
        number, found = int(codes.max(initial=0)) + 1, codes_of(column)
        codes = found if number == 1 else codes_of(pa.chunked_array([found * number + codes]))
    few = len(codes) and codes.max() <= np.iinfo(np.uint16).max  # which NumPy sorts by counting
    order = np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(codes))[:-1]) if len(order) else []
    firsts = keys.take(pa.array([rows[0] for rows in groups], pa.int64()))
    values = zip(*map(python_values, firsts.column_names, firsts.columns), strict=True)
    return [([*each], rows) for each, rows in zip(values, groups, strict=True)]


def python_values(name: str, column: pa.ChunkedArray) -> list[object]:
    """A column's values, to be spelled as folders.

    Raises:
        InvalidSpec: Python has not one of them. Arrow could spell it, but reads no year of five
            digits back.
    """
    return [python_value(name, each) for each in column]


def python_value(name: str, value: pa.Scalar) -> object:
    """One of them."""
    try:
        return value.as_py()
    except OverflowError as error:
        given = {name: str(value.cast(pa.string()))}
        problem = "is a time outside the years 1 to 9999 and cannot be a folder"
        way_out = "correct it in a step, or use another column"
        raise InvalidSpec.at("sink.partition_by", given, f"{problem}: {way_out}") from error


def codes_of(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Each value as a number, from 0 on as they first appear."""
    if pa.types.is_dictionary(column.type):  # each chunk may have one of its own, with nulls
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.concatenate([np.zeros(0, np.int64), *(each.indices for each in encoded.chunks)])
