"""Rows of other types: each that does not fit is bad as if it were alone, found by its column."""

from functools import partial
from unittest.mock import Mock

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

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
    alone = [each for at in range(len(table)) for each in conformed(table.slice(at, 1), fit)]
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
