"""Types that a spec gives columns of files that have none, in place of what the first rows suggest.

Digits may be a code, such as 00501, and what the first thousand rows leave out may come later.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.sources.files_to_ask import FIRST_FILES

logger = logging.getLogger(__name__)

JsonType: TypeAlias = Literal[
    "string", "int64", "uint64", "float64", "bool", "timestamp", "timestamp_utc"
]
CsvType: TypeAlias = Literal[JsonType, "date"]
ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us"),
    "timestamp_utc": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
}


def with_given(found: pa.Schema, types: Mapping[str, CsvType]) -> pa.Schema:
    """Columns of the types that are given; those that are not there come last."""
    fields = {each.name: each for each in found}
    fields |= {name: pa.field(name, ARROW[each]) for name, each in types.items()}
    return pa.schema(list(fields.values()))


def refuse_unread(types: Mapping[str, CsvType], columns: Sequence[str] | None) -> None:
    """See that each column with a type is one of those that are read.

    Args:
        types: as given.
        columns: that are read; None: all.

    Raises:
        InvalidSpec: one is not.
    """
    others = [name for name in types if columns is not None and name not in columns]
    if others:
        known = ", ".join(columns or ())
        problem = f"is not among the columns {known}: correct the name, or leave it out"
        raise InvalidSpec.at("source.types", others[0], problem)


def take_for_later(names: Iterable[str], columns: Iterable[str], num_files: int) -> None:
    """Warn of names given a type that no file has.

    Files of one night may lack what those of another have: to refuse them would end it.

    Args:
        names: that no file has of those that were asked.
        columns: of the first one.
        num_files: that there are.

    Raises:
        InvalidSpec: a name is a column's but for its case or blanks.
    """
    spelt = {each.strip().casefold(): each for each in columns}
    for name in sorted(names):
        if meant := spelt.get(name.strip().casefold()):
            problem = f"is not a column of any file: did you mean {meant!r}?"
            raise InvalidSpec.at("source.types", name, problem)
    logger.warning(
        "source.types: %s do not have the column %s, so it is null there; the first has %s",
        "the files inspected" if num_files > FIRST_FILES + 1 else "the files",
        ", ".join(sorted(names)),
        ", ".join(columns),
    )
