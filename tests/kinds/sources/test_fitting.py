"""Rows of other types: each that does not fit is bad as if it were alone, found by its column."""

from functools import partial
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.kinds.sources import fitting
from tasks.kinds.sources.fitting import conformed, fitted, misfits
from tasks.kinds.sources.source import BadRow, Read

SCHEMA = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.list_(pa.int8()), "d": pa.string()})


def shown(read: Read) -> list[str]:
    return (
        [f"{read.error} {read.raw}"] if isinstance(read, BadRow) else [*map(repr, read.to_pylist())]
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1.0, 2.5, None, float("nan"), 1e300, -0.0]),
            st.sampled_from([b"x", b"\xff", None, "é".encode()]),
            st.sampled_from([[1], [300], None, [None]]),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_rows_that_do_not_fit_are_judged_as_if_each_were_alone(
    rows: list[tuple[float | None, bytes | None, list[int | None] | None]],
) -> None:
    numbers, texts, lists = zip(*rows, strict=True)
    table = pa.table(
        {
            "c": pa.array(lists, pa.list_(pa.int64())),
            "a": pa.array(numbers, pa.float64()),
            "b": pa.array(texts, pa.binary()).view(pa.string()),
        }
    )
    fit, suspects = partial(fitted, SCHEMA), partial(misfits, SCHEMA)
    alone = [each for at in range(len(table)) for each in conformed(table.take([at]), fit)]
    together = [*conformed(table, fit, suspects)]
    assert [*map(type, together)].count(BadRow) == [*map(type, alone)].count(BadRow)
    found, expected = (
        [row for each in reads for row in shown(each)] for reads in (together, alone)
    )
    assert found == expected


def test_rows_of_many_columns_are_fitted_twice_however_many_are_bad() -> None:
    schema = pa.schema([(f"c{at}", pa.int64()) for at in range(20)])
    table = pa.table({each.name: [1.0, 2.5, 3.0, 4.0] * 50 for each in schema})
    fit = Mock(side_effect=partial(fitted, schema))
    found = [*conformed(table, fit, partial(misfits, schema))]
    assert sum(isinstance(each, BadRow) for each in found) == 50
    assert fit.call_count == 2


def test_rows_that_do_not_fit_in_many_columns_are_looked_for_in_one() -> None:
    """Each of 1,000 columns was searched for all rows of a file of other types."""
    schema = pa.schema([(f"c{at}", pa.int64()) for at in range(20)])
    table = pa.table({each.name: [0.5] * 99 + [1.0] for each in schema})
    with patch.object(fitting, "cast", side_effect=fitting.cast) as cast:
        found = misfits(schema, table)
    assert [*found] == [*range(99)]
    assert cast.call_count < 250


@pytest.mark.parametrize("at", [0, 3, 7])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize(
    ("has", "wants", "good", "bad"),
    [
        (pa.list_(pa.int64()), pa.list_(pa.int8()), [1], [300]),
        (pa.list_(pa.int64(), 2), pa.list_(pa.int8(), 2), [1, 2], [1, 300]),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int8()), {"a": 1}, {"a": 300}),
        (pa.list_(pa.binary()), pa.list_(pa.string()), [b"x"], [b"\xff"]),
        (pa.struct({"x": pa.list_(pa.int64())}), pa.struct({"x": pa.list_(pa.int8())}), {"x": [1]},
         {"x": [300]}),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_list_is_wrong_with_no_other_row(
    has: pa.DataType, wants: pa.DataType, good: Any, bad: Any, at: int, by_column: bool
) -> None:
    """Arrow looks at the values of all rows of an array, whichever of them it is to cast."""
    values = [bad if each == at else good for each in range(8)]
    schema = pa.schema([("a", wants)])
    suspects = partial(misfits, schema) if by_column else None
    found = conformed(pa.table({"a": pa.array(values, has)}), partial(fitted, schema), suspects)
    assert [is_bad for each in found for is_bad in are_bad(each)] == [
        each == at for each in range(8)
    ]


@pytest.mark.parametrize("by_column", [False, True])
def test_a_column_that_arrow_takes_nothing_of_is_no_reason(by_column: bool) -> None:
    schema = pa.schema([("view", pa.string_view()), ("a", pa.list_(pa.int32()))])
    suspects = partial(misfits, schema) if by_column else None
    view, values = pa.array(["x", "y", "z"], pa.string_view()), [[3], [4], [2**40]]
    rows = pa.table({"view": view, "a": pa.array(values, pa.list_(pa.int64()))})
    found = [*conformed(rows, partial(fitted, schema), suspects)]
    assert [is_bad for each in found for is_bad in are_bad(each)] == [False, False, True]
    assert isinstance(found[-1], BadRow)
    assert "column 'a': " in str(found[-1].error)


def are_bad(read: Read) -> list[bool]:
    return [True] if isinstance(read, BadRow) else [False] * len(read)
