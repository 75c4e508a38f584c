"""What CSV files behind the first one with rows say of columns."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from tasks.kinds.column_types import LATER_VALUE, has_no_value, is_text
from tasks.kinds.sources.csv_reading.header import refuse_others
from tasks.kinds.sources.csv_reading.inferring import tell_of_text
from tasks.kinds.sources.files_to_ask import new_among
from tasks.kinds.sources.given_types import CsvType


def grown(
    found: pa.Schema, later: Sequence[tuple[str, pa.Schema]], types: Mapping[str, CsvType]
) -> pa.Schema:
    """The first file's columns with those that others bring, as the first one of these has them.

    Args:
        found: what the first one tells.
        later: path of others, and what each tells.
        types: that the spec gives.
    """
    fields = {each.name: each for each in found}
    for _, seen in later:
        if fields.keys().isdisjoint(seen.names):  # likelier to be no header than a new one
            continue
        fields |= {name: seen.field(name) for name in new_among(seen.names, fields)}
    return with_later_values(pa.schema(list(fields.values())), later, None, types, needed=())


def with_later_values(
    found: pa.Schema,
    later: Iterable[tuple[str, pa.Schema]],
    columns: Sequence[str] | None,
    types: Mapping[str, CsvType],
    needed: Sequence[str] | None = None,
) -> pa.Schema:
    """Columns without a value in the first file, marked where one of the next has some.

    They are text all the same, as codes such as 00501 may come: who means numbers is told how
    to say so, before a filter or a model that wants them ends the run.

    Args:
        found: what the first one tells.
        later: path of the next ones, and what each tells.
        columns: that are read; None: all.
        types: that the spec gives.
        needed: columns that a file may not lack; None: any.
    """
    names = {*(columns or found.names)}
    wanted = pa.schema([each for each in found if each.name in names])
    unknown = {each.name for each in wanted if has_no_value(each)} - {*types}
    if not unknown:
        return found
    for path, seen in later:
        try:
            refuse_others(seen.names, wanted, takes_new=bool(columns), needed=needed)
        except ValueError:
            continue  # its rows are set aside, whatever values it has
        told = [each for each in seen if each.name in unknown and not has_no_value(each)]
        for each in told:
            unknown.remove(each.name)
            at = found.get_field_index(each.name)
            found = found.set(at, found.field(at).with_metadata(LATER_VALUE))
        if others := [each for each in told if not is_text(each.type)]:
            tell_of_text(path, others)
        if not unknown:
            break
    return found
