"""What a database holds and no driver can read: it costs its own row, and no other."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.kinds.sources.sql_reading import arrow
from tasks.kinds.sources.sql_reading.unreadable import Unreadable
from tests.kinds.sources.reading import read_all
from tests.kinds.sources.shop import sqlite_shop


@pytest.mark.parametrize(
    ("column", "odd"),
    [
        ("placed_at", "'n/a'"),
        ("placed_at", "''"),
        ("placed_at", "1700000000"),
        ("total", "'a lot'"),
        ("note", "CAST(x'ff41' AS TEXT)"),  # no UTF-8
    ],
)
def test_a_value_that_cannot_be_read_costs_its_own_row(
    tmp_path: Path, column: str, odd: str
) -> None:
    shop = sqlite_shop(tmp_path)
    good = {"placed_at": "'2026-01-31 10:00:00'", "total": "1.25", "note": "'dear'"}
    shop.insert(1, **{**good, column: odd})
    shop.insert(2, 3, **good)
    bad, *others = read_all(shop.source(columns=["id", *good]))
    assert isinstance(bad, BadRow)
    assert "cannot be read" in str(bad.error)
    read = {"placed_at": datetime(2026, 1, 31, 10), "total": Decimal("1.25"), "note": "dear"}
    assert others == [{"id": number, **read} for number in (2, 3)]


def test_a_list_with_a_value_that_cannot_be_read() -> None:
    odd = Unreadable("infinity", ValueError("too late"))
    lists: list[tuple[Any, ...]] = [([date(2026, 1, 31), odd],), ([date(2026, 2, 1)],)]
    schema = arrow.schema_of(["days"], lists)
    assert schema.field("days").type == pa.list_(pa.date32())
    bad, good = arrow.conformed(lists, schema)
    assert isinstance(bad, BadRow)
    assert str(bad.error) == "column 'days': 'infinity' cannot be read: too late"
    assert not isinstance(good, BadRow)
    assert good.to_pylist() == [{"days": [date(2026, 2, 1)]}]


def test_what_arrow_has_no_type_for() -> None:
    zone = timezone(timedelta(hours=2))
    given: list[tuple[Any, ...]] = [
        (time(10, tzinfo=zone), Decimal("1.5")),
        (None, Decimal("2.25")),
    ]
    schema = arrow.schema_of(["opens", "price"], given[:1])
    good, bad = arrow.conformed(given, schema)
    assert not isinstance(good, BadRow)
    assert good["opens"].to_pylist() == ["10:00:00+02:00"]
    assert isinstance(bad, BadRow)
    assert str(bad.error).endswith(
        "have 1 digit after the decimal point: cast the column in source.query"
    )
    with pytest.raises(TypeError, match="column 'id' has values of more than one type"):
        arrow.schema_of(["id"], [(2**64,)])


def test_times_of_no_day_are_a_range_of_their_own(tmp_path: Path) -> None:
    shop = sqlite_shop(tmp_path)
    times = ["2026-01-31 23:59:59", "9999-12-31 12:00:00", "n/a", "", "2026-02-31", "12:30"]
    for number, each in enumerate(times):
        shop.insert(number, placed_at=f"'{each}'")
    shop.insert(6, placed_at="2460000")  # as a Julian day it is one of 2023
    shop.insert(7)
    found = shop.source(range_column="placed_at", version_column="placed_at", columns=["id"])
    storage, inputs = list_inputs(found)
    names = [stat.path.rsplit("/", 1)[-1] for stat in inputs]
    assert names == ["2026-01-31", "9999-12-31", "undated", "null"]
    assert [storage.stat(each.path) for each in inputs] == list(inputs)
    assert [row["id"] for row in read_all(found)] == [*range(8)]
