"""What Postgres holds that SQLite does not: its types, its zones, its roles, its cursors."""

import re
import time
import traceback
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.places import check_source
from tasks.kinds.sources import SqlSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import ROWS_PER_READ, BadRow, schema_of
from tests.kinds.sources.reading import read_all
from tests.kinds.sources.shop import Shop, postgres_shop
from tests.postgres import PASSWORD, READER, READER_VARIABLE, Postgres

NAMES = [f"{n:08x}-0000-4000-8000-00000000000{n}" for n in range(1, 4)]


@pytest.fixture
def shop(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv(READER_VARIABLE, PASSWORD)
    return postgres_shop(postgres)


@pytest.mark.parametrize("asked", [{"table": "kept"}, {"table": None, "query": "TABLE kept"}])
def test_each_type_has_its_arrow_type(shop: Shop, asked: dict[str, Any]) -> None:
    shop.execute(
        "CREATE TABLE kept (id BIGINT PRIMARY KEY, price NUMERIC, name UUID, plain JSON, "
        "tree JSONB, raw BYTEA, counts INTEGER[], weights NUMERIC[], names UUID[], "
        "at TIMESTAMPTZ, day DATE, good BOOLEAN, ratio DOUBLE PRECISION, text TEXT)",
        f"INSERT INTO kept VALUES (1, 12.50, '{NAMES[0]}', "
        """'{"a":  1}', '[1, {"b": null}]', """
        f"'\\x00ff', '{{1,NULL,3}}', '{{1.5,20.25}}', '{{{NAMES[0]},{NAMES[1]}}}', "
        "'2026-01-31 23:30:00+00', '2026-01-31', true, 0.1, "
        r"E'line\n\ttab ''quoted'' %s %% :x 🦒 \u0301')",
        "INSERT INTO kept (id, plain, tree, counts, weights, text)"
        """ VALUES (2, '"x"', '5', '{}', '{}', '')""",
        "INSERT INTO kept (id) VALUES (3)",
    )
    first, second, third = read_all(shop.source(**asked))
    assert first == {
        "id": 1,
        "price": Decimal("12.50"),
        "name": NAMES[0],
        "plain": '{"a":  1}',
        "tree": '[1, {"b": null}]',
        "raw": b"\x00\xff",
        "counts": [1, None, 3],
        "weights": [Decimal("1.50"), Decimal("20.25")],
        "names": NAMES[:2],
        "at": datetime(2026, 1, 31, 23, 30, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "good": True,
        "ratio": 0.1,
        "text": "line\n\ttab 'quoted' %s %% :x 🦒 \u0301",
    }
    given = {"id": 2, "plain": '"x"', "tree": "5", "counts": [], "weights": [], "text": ""}
    assert second == dict.fromkeys(first) | given
    assert third == dict.fromkeys(first) | {"id": 3}


def test_the_types_of_empty_columns_are_those_of_their_values_to_come(shop: Shop) -> None:
    declared = (
        "good BOOLEAN, small SMALLINT, large BIGINT, ratio REAL, half DOUBLE PRECISION, "
        "price NUMERIC(10, 2), whole NUMERIC(10), day DATE, at TIMESTAMP, zoned TIMESTAMPTZ, "
        "opens TIME, closes TIMETZ, raw BYTEA, text TEXT, few VARCHAR(9), fixed CHAR(3), "
        "name UUID, plain JSON, tree JSONB, mood mood"
    )
    values = (
        "true, 1, 2, 0.5, 0.25, 12.5, 7, '2026-01-31', '2026-01-31 12:00', '2026-01-31 12:00+09', "
        f"'10:00', '10:00+09', 'raw', 'text', 'few', 'abc', '{NAMES[0]}', '1', '[]', 'good'"
    )
    shop.execute("CREATE TYPE mood AS ENUM ('good')", f"CREATE TABLE kept (id BIGINT, {declared})")
    shop.execute("CREATE VIEW seen AS SELECT * FROM kept", "INSERT INTO kept (id) VALUES (1)")
    found = {table: pinned(shop.source(table=table)) for table in ("kept", "seen")}
    shop.execute("DELETE FROM kept", f"INSERT INTO kept VALUES (1, {values})")
    assert found == dict.fromkeys(found, pinned(shop.source(table="kept")))
    assert pinned(shop.source(table=None, query="TABLE kept")) == found["kept"]


def test_what_a_type_does_not_tell_a_later_value_does(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE kept (id BIGINT, price NUMERIC, counts INTEGER[], took INTERVAL, ends DATE)",
        "INSERT INTO kept SELECT n FROM generate_series(1, 200) AS n",
        "INSERT INTO kept (id, counts) VALUES (201, '{}')",
        "INSERT INTO kept VALUES (202, 1.5, '{1}', '1 day', 'infinity')",
    )
    found = shop.source(table="kept")
    price, took, counts, ends = map(pinned(found).field, ("price", "took", "counts", "ends"))
    assert (price.type, took.type) == (pa.decimal128(38, 1), pa.duration("us"))
    assert (counts.type, ends.type) == (pa.list_(pa.int64()), pa.date32())


def pinned(found: SqlSource) -> pa.Schema:
    """Names and types of the columns, as a plan pins them."""
    return schema_of(found.pin(*list_inputs(found))["schema"])


def test_days_are_utcs_whatever_the_zone_of_the_server(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute(
        "CREATE TABLE visits (id INTEGER PRIMARY KEY, at TIMESTAMPTZ)",
        "INSERT INTO visits VALUES (1, '2026-01-31 23:59:59+00'), (2, '2026-02-01 00:00:00+00'),"
        " (3, '2026-02-01 23:59:59.999999+00'), (4, NULL)",
    )
    for asked in ({"table": "visits"}, {"table": None, "query": "SELECT * FROM visits"}):
        found = shop.source(**asked, range_column="at", version_column="at")
        storage, inputs = list_inputs(found)
        names = [stat.path.rsplit("/", 1)[-1] for stat in inputs]
        assert names == ["2026-01-31", "2026-02-01", "null"]
        monkeypatch.setenv("PGTZ", "America/New_York")  # a node's own
        assert [storage.stat(each.path) for each in inputs] == list(inputs)
        assert [row["id"] for row in read_all(found)] == [1, 2, 3, 4]
        assert {str(row["at"].tzinfo) for row in read_all(found)[:3]} == {"UTC"}
        monkeypatch.delenv("PGTZ")


@pytest.mark.parametrize("asked", [{"table": "named"}, {"table": None, "query": "TABLE named"}])
def test_keys_may_be_uuids(shop: Shop, asked: dict[str, Any]) -> None:
    shop.execute(
        "CREATE TABLE named (name UUID PRIMARY KEY, batch BIGINT)",
        *(f"INSERT INTO named VALUES ('{name}', {batch})" for batch, name in enumerate(NAMES)),
    )
    found = shop.source(**asked, key="name", range_column="batch", range_size=2)
    storage, inputs = list_inputs(found)
    assert [row["name"] for row in read_all(found)] == NAMES
    shop.execute(f"UPDATE named SET name = '{NAMES[2][:-1]}f' WHERE name = '{NAMES[2]}'")
    assert [storage.stat(each.path) == each for each in inputs] == [True, False]
    with pytest.raises(InvalidSpec, match="holds UUID, which cannot be divided into ranges"):
        list_inputs(shop.source(**asked, key="name"))


def test_numbers_that_are_none_are_set_aside(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE sums (id INTEGER PRIMARY KEY, total NUMERIC)",
        "INSERT INTO sums VALUES (1, 'NaN'), (2, 1.25), (3, 'Infinity'), (4, 1e40)",
    )
    nan, good, infinite, large = read_all(shop.source(table="sums"))
    assert good == {"id": 2, "total": Decimal("1.25")}
    assert all(isinstance(each, BadRow) for each in (nan, infinite, large))


@pytest.mark.parametrize("of", ["DATE", "TIMESTAMPTZ"])
def test_a_time_that_python_has_none_of_costs_its_own_row(shop: Shop, of: str) -> None:
    shop.execute(
        f"CREATE TABLE leases (id INTEGER PRIMARY KEY, ends {of}, others {of}[])",
        "INSERT INTO leases (id, ends) VALUES (1, '-infinity'), (3, 'infinity'), "
        "(4, '20000-01-01'), (5, '0044-03-15 BC'), (2, '2026-01-31 12:00+00'), "
        "(6, '9999-12-31 12:00+00'), (7, NULL)",
        "INSERT INTO leases (id, others) VALUES (8, '{2026-01-31,infinity}'), (9, '{2026-01-31}')",
    )
    for asked in ({"table": "leases"}, {"table": None, "query": "TABLE leases"}):
        found = shop.source(**asked)
        ids = [None if isinstance(row, BadRow) else row["id"] for row in read_all(found)]
        assert ids == [None, 2, None, None, None, 6, 7, None, 9]
        infinite = read_all(found)[2]
        assert "'infinity' cannot be read" in str(infinite.error)
        days = shop.source(**asked, range_column="ends", version_column="ends")
        storage, inputs = list_inputs(days)
        names = [stat.path.rsplit("/", 1)[-1] for stat in inputs]
        assert names == ["2026-01-31", "9999-12-31", "undated", "null"]
        assert [storage.stat(each.path) for each in inputs] == list(inputs)
        ids = [None if isinstance(row, BadRow) else row["id"] for row in read_all(days)]
        assert ids == [2, 6, None, None, None, None, 7, None, 9]


def test_a_table_of_another_schema_and_a_view(shop: Shop) -> None:
    shop.execute(
        'CREATE SCHEMA "Sales"',
        'CREATE TABLE "Sales"."Orders" ("Id" INTEGER PRIMARY KEY, "the note" TEXT)',
        """INSERT INTO "Sales"."Orders" VALUES (1, 'a'), (12, 'b')""",
        'CREATE VIEW few AS SELECT * FROM "Sales"."Orders" WHERE "Id" > 10',
        'GRANT USAGE ON SCHEMA "Sales" TO reader',
    )
    found = shop.source(table="Sales.Orders", key="Id")
    assert found.root.endswith("/shop/Sales.Orders")
    assert read_all(found) == [{"Id": 1, "the note": "a"}, {"Id": 12, "the note": "b"}]
    assert read_all(shop.source(table="few", key="Id")) == [{"Id": 12, "the note": "b"}]


def test_a_query_with_signs_of_the_drivers_own(shop: Shop) -> None:
    shop.insert(1, 2, note="'100%'")
    query = "SELECT id, note, id % 2 AS odd, id::TEXT AS said FROM orders WHERE note LIKE '%0%'"
    odd = [{"id": n, "note": "100%", "odd": n % 2, "said": str(n)} for n in (1, 2)]
    assert read_all(shop.source(table=None, query=query)) == odd


def test_no_transaction_stays_open_while_a_model_is_at_work(shop: Shop, postgres: Postgres) -> None:
    query = f"SELECT n AS id FROM generate_series(1, {2 * ROWS_PER_READ}) AS n"
    found = shop.source(table=None, query=query, range_size=10**6)
    storage, (stat,) = list_inputs(found)
    (shard,) = found.split(storage, stat)
    reads = found.read(storage, shard, found.pin(storage, [stat]))
    sizes = [len(each) for each in [next(reads)] if isinstance(each, pa.Table)]
    asked, until = (
        f"SELECT 1 FROM pg_stat_activity WHERE usename = '{READER}'",
        time.monotonic() + 60,
    )
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        while is_open := connection.execute(asked).fetchall():
            assert time.monotonic() < until, is_open
            time.sleep(0.01)  # a server takes a moment to let go
    sizes += [len(each) for each in reads if isinstance(each, pa.Table)]
    assert sizes == [ROWS_PER_READ, ROWS_PER_READ]


def test_a_large_range_is_fetched_some_rows_at_a_time(
    shop: Shop, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.kinds.sources.sql.BYTES_HELD", 0)
    query = f"SELECT n AS id FROM generate_series(1, {4 * ROWS_PER_READ}) AS n"
    found = shop.source(table=None, query=query, range_size=10**6)
    storage, (stat,) = list_inputs(found)
    pins, (shard,) = found.pin(storage, [stat]), found.split(storage, stat)
    asked = f"SELECT query FROM pg_stat_activity WHERE usename = '{READER}'"
    fetched = []
    with psycopg.connect(postgres.url()) as connection:
        for _ in found.read(storage, shard, pins):
            fetched += connection.execute(asked).fetchall()
    assert len(fetched) == 4
    for (each,) in fetched:
        rows = re.match(r"FETCH FORWARD (\d+) ", each)
        assert rows, each
        assert int(rows[1]) <= ROWS_PER_READ


def test_a_role_that_may_not_read_is_told_so(shop: Shop) -> None:
    shop.execute("CREATE TABLE secret (id INTEGER)", "REVOKE ALL ON secret FROM reader")
    with pytest.raises(Unreachable, match="permission denied for table secret"):
        check_source(shop.source(table="secret"))
    with pytest.raises(InvalidSpec, match="permission denied for table secret"):
        check_source(shop.source(table=None, query="TABLE secret"))


def test_who_is_not_let_in_is_not_told_the_password(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(READER_VARIABLE, "wrong-but-secret")
    with pytest.raises(Unreachable, match='password authentication failed for user "reader"') as at:
        check_source(shop.source())
    monkeypatch.setenv(READER_VARIABLE, PASSWORD)
    closed = shop.source().model_copy(
        update={"path": shop.path.replace("127.0.0.1:", "127.0.0.1:1")}
    )
    with pytest.raises(Unreachable, match=r"source\.path: .* cannot be reached") as nobody:
        check_source(closed)
    for caught in (at, nobody):
        said = "".join(traceback.format_exception(caught.value))
        assert "wrong-but-secret" not in said
        assert PASSWORD not in said
