"""Names and types of the columns of Parquet files: the first file's, or what a spec gives them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.kinds.column_types import completed, has_null, text_for_none
from tasks.kinds.sources import files_to_ask
from tasks.kinds.sources.fitting import DATA_ERRORS, data_error
from tasks.kinds.sources.given_types import ARROW, CsvType, take_for_later
from tasks.kinds.sources.stored_arrays import as_stored, for_both, is_of_one_shape, type_in_rows
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage

INT96_UNIT = "us"
"""Of timestamps as Spark writes them: in nanoseconds, as Arrow has it, the year 9999 becomes 1816.
What is finer, as others may have written it, is cut off."""


def types_of(
    storage: FsspecStorage,
    inputs: Sequence[Stat],
    given: Mapping[str, CsvType],
    *,
    grows: bool = False,
) -> tuple[dict[str, pa.DataType], list[str]]:
    """The first file's columns, those of nulls as the next files have them, and those given types.

    Args:
        storage: where the files lie.
        inputs: the files, of which those that are damaged tell nothing. Columns are added to data
            as time goes by, and names are sorted by it more often than not: the last one is asked
            too for those that the first ones lack.
        given: types that the spec names.
        grows: whether columns count too that the first file lacks.

    Returns:
        Types by name, empty where no file can be read, and the names of the first file's columns,
        each as often as it is there.

    Raises:
        InvalidSpec: a name given a type is a column's but for its case or blanks.
    """
    types: dict[str, pa.DataType] = {}
    first: list[str] = []
    unseen = set(given)
    for schema in asked(storage, inputs, grows=grows):
        if not first:
            first = schema.names
            types = dict.fromkeys(first, pa.null()) | {n: ARROW[t] for n, t in given.items()}
        unseen -= {*schema.names}
        # One that is there twice would set all rows of its file aside.
        new = files_to_ask.new_among(schema.names, types)
        wanted = {*types, *new} - several(schema.names) if grows else {*first}
        for each in schema:
            if each.name in wanted and each.name not in given:
                known, found = types.get(each.name, pa.null()), type_in_rows(each)
                types[each.name] = for_both(completed(known, found), found)
        is_open = unseen or any(has_null(t) or is_of_one_shape(t) for t in types.values())
        if not (grows or is_open):
            break
    if types and unseen:
        take_for_later(unseen, first, len(inputs))
    return types, first


def asked(storage: FsspecStorage, inputs: Sequence[Stat], *, grows: bool) -> Iterator[pa.Schema]:
    """Schemas of the first files that can be read, and of the last one.

    Args:
        storage: where the files lie.
        inputs: the files.
        grows: whether some between them are asked too, at even distances.
    """
    yield from islice(schemas(storage, inputs), files_to_ask.FIRST_FILES)
    yield from schemas(storage, files_to_ask.behind_the_first(inputs, between=grows))


def schemas(storage: FsspecStorage, inputs: Sequence[Stat]) -> Iterator[pa.Schema]:
    """Schemas of the inputs that are Parquet files."""
    for stat in inputs:
        with storage.open(stat.path) as opened:
            try:
                with as_stored():
                    file = pq.ParquetFile(opened, coerce_int96_timestamp_unit=INT96_UNIT)
                yield schema_in(file)
            except DATA_ERRORS as error:
                data_error(error)


def schema_in(file: pq.ParquetFile) -> pa.Schema:
    """The names and types of a file's columns, as they are stored."""
    with as_stored():
        return file.schema_arrow


def settled(schema: pa.Schema) -> pa.Schema:
    """Names and types alone, with strings where no file has a value."""
    named = (pa.field(each.name, type_in_rows(each)) for each in schema)
    return pa.schema([*map(text_for_none, named)])


def several(names: Sequence[str]) -> set[str]:
    """Those that come more than once."""
    return {name for name, count in Counter(names).items() if count > 1}


def other_names(names: list[str], wanted: list[str], demanded: list[str]) -> str | None:
    """What is wrong with the names of a file's columns; None where nothing is.

    Args:
        names: of its columns.
        wanted: of those that are read, which it may lack, but not by a slip.
        demanded: of those that it may not lack.
    """
    have = {*names}
    spelt = {each.strip().casefold(): each for each in sorted(have - {*wanted})}
    for name in wanted:
        if name not in have and (found := spelt.get(name.strip().casefold())):
            way_out = "use the same name in all files, or leave it out of source.columns"
            return f"the column {found!r} instead of {name!r}: {way_out}"
    if missing := [name for name in demanded if name not in have]:
        return f"no column {', '.join(missing)}"
    twice = sorted(several(names) & {*wanted})
    return f"two columns {twice[0]}" if twice else None
