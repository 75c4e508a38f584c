"""Ranges of a table are inputs: cut alike each time, read in one order, known by their content."""

import sqlite3
import traceback
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from tasks.errors import InputNotFound, InvalidSpec, Unreachable
from tasks.kinds.places import check_source
from tasks.kinds.sources import SqlSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import ROWS_PER_READ, BadRow
from tasks.kinds.sources.sql import RANGES_TO_INFER
from tasks.kinds.sources.sql_reading.database import Database
from tasks.kinds.sources.sql_reading.inferring import VALUES_TO_INFER
from tasks.kinds.sources.sql_reading.secrets import without_secrets
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage
from tasks.spec_file import parse_spec
from tests.kinds.sources.shop import Shop, postgres_shop, sqlite_shop
from tests.postgres import PASSWORD, READER_VARIABLE

SECRET = "hunter22-very-secret"


@pytest.fixture
def sqlite(tmp_path: Path) -> Shop:
    return sqlite_shop(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """On both, what databases may understand differently."""
    if request.param == "sqlite":
        return sqlite_shop(request.getfixturevalue("tmp_path"))
    monkeypatch.setenv(READER_VARIABLE, PASSWORD)
    return postgres_shop(request.getfixturevalue("postgres"))


def ranges(found: SqlSource) -> dict[str, str]:
    """Identities of the inputs by their ranges, in order."""
    return {stat.path.rsplit("/", 1)[-1]: stat.identity for stat in list_inputs(found)[1]}


def shard_of(found: SqlSource, storage: FsspecStorage, stat: Stat) -> Shard:
    """An input as the one shard that it is."""
    (shard,) = found.split(storage, stat)
    return shard


def rows(found: SqlSource) -> list[dict[str, Any]]:
    """All rows, in the order of shards; bad ones as their message."""
    storage, inputs = list_inputs(found)
    pins = found.pin(storage, inputs)
    shards = [shard_of(found, storage, stat) for stat in inputs]
    read: list[Any] = []
    for shard in shards:
        tables = list(found.read(storage, shard, pins))
        assert shard.rows == sum(1 if isinstance(each, BadRow) else len(each) for each in tables)
        for each in tables:
            read += [str(each.error)] if isinstance(each, BadRow) else each.to_pylist()
    return read


def schema_of(found: SqlSource) -> pa.Schema:
    """Names and types of the columns, as a plan pins them."""
    pins = found.pin(*list_inputs(found))
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(pins["schema"])))


def test_whole_numbers_are_cut_on_a_grid(shop: Shop) -> None:
    shop.insert(25, 3, -4, 9, 10, -10, -25, 1000, 0)
    found = shop.source()
    assert [*ranges(found)] == ["-29..-20", "-19..-10", "-9..9", "10..19", "20..29", "1000..1009"]
    assert [row["id"] for row in rows(found)] == [-25, -10, -4, 0, 3, 9, 10, 25, 1000]


def test_the_outermost_numbers_are_in_ranges_too(shop: Shop) -> None:
    shop.execute("CREATE TABLE far (id BIGINT)")
    ids = [-(2**63), 1 - 2**63, 5, 2**63 - 1]
    shop.execute(*(f"INSERT INTO far VALUES ({each})" for each in ids))
    assert [row["id"] for row in rows(shop.source(table="far"))] == ids


def test_every_range_is_looked_at_as_it_is_listed(shop: Shop) -> None:
    for each in range(-12, 24, 3):
        time = f"'2026-01-0{1 + abs(each) % 4} 12:00:00'"
        shop.insert(each, changed="{id}", region="{id} * 5", placed_at=time)
    shop.execute("UPDATE orders SET region = NULL, placed_at = NULL WHERE id % 2 <> 0")
    for column in ("id", "region", "placed_at"):
        found = shop.source(range_column=column, version_column="changed")
        storage, inputs = list_inputs(found)
        assert [storage.stat(each.path) for each in inputs] == list(inputs)
        assert sorted(row["id"] for row in rows(found)) == list(range(-12, 24, 3))


def test_days_and_what_has_none(shop: Shop) -> None:
    shop.insert(1, 4, placed_at="'2026-01-31 23:59:59'")
    shop.insert(2, placed_at="'2026-02-01 00:00:00'")
    shop.insert(3, 5)
    found = shop.source(range_column="placed_at", columns=["id", "placed_at"])
    assert [*ranges(found)] == ["2026-01-31", "2026-02-01", "null"]
    assert [row["id"] for row in rows(found)] == [1, 4, 2, 3, 5]
    assert schema_of(found).field("placed_at").type == pa.timestamp("us")


def test_a_query_is_as_good_as_a_table(shop: Shop) -> None:
    shop.insert(*range(30), total="{id} * 2")
    query = "SELECT id AS number, total / 2.0 AS half FROM orders WHERE id >= 15 AND note IS NULL;"
    found = shop.source(table=None, query=query, key="number")
    assert [*ranges(found)] == ["10..19", "20..29"]
    assert rows(found) == [{"number": n, "half": float(n)} for n in range(15, 30)]


def test_new_rows_leave_other_ranges_as_they_are(shop: Shop) -> None:
    shop.insert(*range(25))
    before = ranges(shop.source())
    shop.insert(25, 41)
    after = ranges(shop.source())
    assert [*after] == ["-9..9", "10..19", "20..29", "40..49"]
    same = [name for name in before if after[name] == before[name]]
    assert same == ["-9..9", "10..19"]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM orders WHERE id = 3",
        "UPDATE orders SET id = 8 WHERE id = 3",  # as many rows between the same ends
        "UPDATE orders SET total = 5, changed = 100 WHERE id = 3",
    ],
)
def test_a_change_shows(shop: Shop, change: str) -> None:
    shop.insert(1, 3, 5, 9, 12, changed="{id}")
    found = shop.source(version_column="changed")
    storage, inputs = list_inputs(found)
    shop.execute(change)
    assert [storage.stat(each.path) == each for each in inputs] == [False, True]


@pytest.mark.parametrize("column", ["placed_at", "region"])
def test_another_key_between_the_same_ends_shows_in_a_range_of_another_column(
    shop: Shop, column: str
) -> None:
    """As many rows of a day as before."""
    shop.insert(1, 3, 9, region="1", placed_at="'2026-01-01 12:00:00'")
    shop.insert(2, 4, region="11", placed_at="'2026-01-02 12:00:00'")
    storage, inputs = list_inputs(shop.source(range_column=column))
    shop.execute("UPDATE orders SET id = 7 WHERE id = 3")
    assert [storage.stat(each.path) == each for each in inputs] == [False, True]


def many(sqlite: Shop) -> int:
    """Add more orders than are read at a time; tells how many."""
    last = 2 * ROWS_PER_READ + 1
    numbers = f"SELECT 1 AS n UNION ALL SELECT n + 1 FROM some WHERE n < {last}"
    sqlite.execute(f"INSERT INTO orders (id) WITH RECURSIVE some AS ({numbers}) SELECT n FROM some")
    return last


@pytest.mark.parametrize("wanted", [3, ROWS_PER_READ])
def test_no_more_of_a_large_range_is_fetched_than_a_limited_run_wants(
    sqlite: Shop, wanted: int
) -> None:
    many(sqlite)
    found = sqlite.source(columns=["id"], range_size=10**6)
    storage, (stat,) = list_inputs(found)
    shard, pins = replace(shard_of(found, storage, stat), rows=wanted), found.pin(storage, [stat])
    sizes = [len(each) for each in found.read(storage, shard, pins) if isinstance(each, pa.Table)]
    assert sizes == [ROWS_PER_READ]


def test_nobody_waits_to_write_to_sqlite_until_a_model_is_done(sqlite: Shop) -> None:
    """Its journal is by default one that readers keep writers out of."""
    last = many(sqlite)
    sqlite.execute("UPDATE orders SET note = CAST(x'ff' AS TEXT) WHERE id = 7")
    found = sqlite.source(columns=["id", "note"], range_size=10**6)
    storage, (stat,) = list_inputs(found)
    reads = found.read(storage, shard_of(found, storage, stat), found.pin(storage, [stat]))
    handed_on = [next(reads)]
    with closing(sqlite3.connect(sqlite.path.removeprefix("sqlite:///"), timeout=0)) as application:
        application.execute("DELETE FROM orders")
        application.commit()
    handed_on += reads
    (bad,) = (each for each in handed_on if isinstance(each, BadRow))
    assert "cannot be read" in str(bad.error)
    ids = [n for each in handed_on if not isinstance(each, BadRow) for n in each["id"].to_pylist()]
    assert ids == [n for n in range(1, last + 1) if n != 7]


KEYS = {
    "number": "{id}",
    "text": "'k{id}'",
    "uuid": "'018f0000-0000-7000-8000-0000000000{id}'",
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("is_query", [False, True])
def test_what_comes_behind_the_rows_of_a_range_and_updates_are_the_next_runs(
    key: str, is_query: bool, shop: Shop
) -> None:
    """In a table that is at work they would else end each attempt."""
    if "sqlite" in shop.path and key == "uuid":
        pytest.skip("it has no such type")
    kind = {"number": "BIGINT"}.get(key, key)
    shop.execute(f"CREATE TABLE log (k {kind}, region INTEGER, changed TIMESTAMP)")

    def put(*ids: int) -> None:
        for each in ids:
            values = f"{KEYS[key].format(id=each)}, 7, '2026-01-01 0{each % 9}:00:00'"
            shop.execute(f"INSERT INTO log VALUES ({values})")

    put(*range(10, 30, 2))
    asked = {"table": None, "query": "SELECT * FROM log"} if is_query else {"table": "log"}
    found = shop.source(**asked, key="k", range_column="region", version_column="changed")
    storage, (planned,) = list_inputs(found)
    shard = shard_of(found, storage, planned)
    shop.execute("UPDATE log SET changed = '2026-01-02 07:00:00'")
    assert found.is_unchanged(storage, shard)
    put(30, 31)
    # Postgres does not say of which type a query's columns are: it compares these as texts.
    is_told = not (is_query and "postgres" in shop.path)
    assert found.is_unchanged(storage, shard) == is_told
    put(17)
    assert not found.is_unchanged(storage, shard)
    shop.execute(f"DELETE FROM log WHERE k = {KEYS[key].format(id=17)}")
    assert found.is_unchanged(storage, shard) == is_told
    shop.execute(f"DELETE FROM log WHERE k = {KEYS[key].format(id=12)}")
    assert not found.is_unchanged(storage, shard)
    shop.execute("DELETE FROM log")
    assert not found.is_unchanged(storage, shard)


def test_a_key_that_was_longer_is_no_key_with_another_version(sqlite: Shop) -> None:
    sqlite.execute(
        "CREATE TABLE log (k TEXT, day TIMESTAMP, changed INTEGER)",
        "INSERT INTO log VALUES ('a', '2026-01-01', 1), ('b:1', '2026-01-01', 2)",
    )
    found = sqlite.source(table="log", key="k", range_column="day", version_column="changed")
    storage, (planned,) = list_inputs(found)
    sqlite.execute("UPDATE log SET k = 'b' WHERE k = 'b:1'")
    assert not found.is_unchanged(storage, shard_of(found, storage, planned))


def test_a_range_that_has_become_empty_is_gone(shop: Shop) -> None:
    shop.insert(1, 12)
    storage, (first, _) = list_inputs(shop.source())
    shop.execute("DELETE FROM orders WHERE id = 1")
    assert storage.stat(first.path) is None


def test_types_hold_what_comes_later(sqlite: Shop) -> None:
    sqlite.insert(1, total="1.25")
    sqlite.insert(2, total="12345678.5", note="'late'")
    sqlite.insert(13, total="'a lot'", note="'x'")
    typed = sqlite.source(columns=["note", "total"], range_size=2)
    storage, inputs = list_inputs(typed)
    pins = typed.pin(storage, inputs)
    shards = [shard_of(typed, storage, stat) for stat in inputs[:2]]
    reads = [each for shard in shards for each in typed.read(storage, shard, pins)]
    assert [row for each in reads for row in each.to_pylist()] == [  # type: ignore[union-attr]
        {"note": None, "total": Decimal("1.25")},
        {"note": "late", "total": Decimal("12345678.50")},
    ]
    raw = sqlite.source(table=None, query="SELECT id, note, total FROM orders")
    good, late, bad = rows(raw)
    assert (good["total"], late["total"], late["note"]) == (1.25, 12345678.5, "late")
    assert "a lot" in str(bad)


@pytest.mark.parametrize("asked", [{}, {"table": None, "query": "SELECT * FROM orders"}])
def test_columns_without_a_value_in_the_first_rows_have_the_type_of_later_ones(
    shop: Shop, asked: dict[str, Any]
) -> None:
    first = [10 * each for each in range(RANGES_TO_INFER + 1)]
    shop.insert(*first)
    shop.insert(901, region="7")
    shop.insert(*range(1000, 1000 + VALUES_TO_INFER), note="'dear'")
    shop.insert(2001, total="1.25", placed_at="'2026-01-31 12:00:00'")
    found = shop.source(**asked)
    read = rows(found)
    *empty, number = read[: len(first) + 1]
    assert [row["id"] for row in empty] == first
    assert (number["region"], read[-2]["note"]) == (7, "dear")
    last = read[-1]
    assert (last["id"], float(last["total"])) == (2001, 1.25)
    assert str(last["placed_at"]).startswith("2026-01-31 12:00:00")
    assert schema_of(found).field("changed").type == (
        # Of an empty column only a table of Postgres tells.
        pa.int64() if found.table and "postgresql" in found.root else pa.string()
    )


def test_all_empty_columns_cost_one_look_at_all_rows(
    sqlite: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def look(self: Database, names: list[str], limit: int) -> list[tuple[Any, ...]]:
        looks.append(names)
        return with_values(self, names, limit)

    with_values = Database.with_values
    monkeypatch.setattr(Database, "with_values", look)
    sqlite.insert(1, 2)
    assert set(schema_of(sqlite.source()).types[1:]) == {pa.string()}
    assert looks == [["region", "placed_at", "total", "note", "changed"]]
    found = sqlite.source()
    found.pin(list_inputs(found)[0], [])  # where nothing is left to do
    schema_of(sqlite.source(columns=["id"]))
    assert len(looks) == 1


def test_a_fraction_after_whole_numbers_is_not_cut_off(sqlite: Shop) -> None:
    sqlite.insert(1, 2, total="10")
    sqlite.insert(13, total="12.5")
    *whole, bad = rows(sqlite.source(table=None, query="SELECT id, total FROM orders"))
    assert whole == [{"id": 1, "total": 10}, {"id": 2, "total": 10}]
    said = "column 'total': 12.5 is not a whole number, unlike those in the first rows: cast"
    assert str(bad).startswith(said)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"table": "order"}, "source.table: 'order' does not exist; there are orders$"),
        ({"key": "nr"}, "source.key: 'nr' is not among the columns id, region"),
        ({"range_column": "nr"}, "source.range_column: 'nr' is not among"),
        ({"range_column": "note"}, "holds str, but only whole numbers and times"),
        ({"key": "note"}, "source.key: 'note' holds text, .*: set source.range_column to a column"),
        ({"key": "region"}, r"empty or repeated: the range -9\.\.9 has 2 rows and 1 key;"),
        ({"key": "changed"}, "empty or repeated: the range null has 3 rows and 0 keys;"),
        ({"columns": ["id", "what"]}, "source.columns: 'what' is not among"),
        ({"storage_options": {"ehco": 1}}, "source.storage_options: .* Invalid argument.* 'ehco'"),
        (
            {"table": None, "query": "SELECT 1 FRM x"},
            "source.query: 'SELECT 1 FRM x' does not run: .*syntax",
        ),
        (
            {"table": None, "query": "DELETE FROM orders"},
            r"does not run: [\s\S]*; it must be one SELECT",
        ),
        (
            {"table": None, "query": "SELECT id, region, o.id FROM orders o"},
            "source.query: .* gives more than one column id: give each its own name",
        ),
    ],
)
def test_what_does_not_fit_is_said(shop: Shop, fields: dict[str, Any], problem: str) -> None:
    shop.insert(1, 2, region="7", note="'a'")
    shop.insert(3, region="70", note="'b'")
    found = shop.source(**fields)

    def plan() -> None:
        check_source(found)
        rows(found)

    with pytest.raises(InvalidSpec, match=problem):
        plan()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, note FROM orders WHERE note = ':a' OR note = ' :b'",
        r"SELECT id, note FROM orders WHERE ' :a:b \:c' = ' :' || 'a:b ' || '\' || ':c'",
        "SELECT id, note FROM orders -- all of them",
        "SELECT id, note FROM orders;",
    ],
)
def test_a_query_is_taken_as_it_is(shop: Shop, query: str) -> None:
    shop.insert(1, note="':a'")
    found = shop.source(table=None, query=query)
    assert rows(found) == [{"id": 1, "note": ":a"}]


def test_names_with_colons_are_told_apart(shop: Shop) -> None:
    shop.insert(1, note="'a'", region="7")
    query = 'SELECT id, note AS "dc:title", region AS "dc:date" FROM orders'
    assert rows(shop.source(table=None, query=query)) == [{"id": 1, "dc:title": "a", "dc:date": 7}]


def test_long_numbers_in_decimals_keep_their_digits(sqlite: Shop) -> None:
    sqlite.execute(
        "CREATE TABLE ledger (id INTEGER, number DECIMAL(20, 0), amount NUMERIC)",
        "INSERT INTO ledger VALUES (1, 1234567890123456789, 9007199254740993), (2, 2, 0.5)",
    )
    found = rows(sqlite.source(table="ledger"))
    assert [row["number"] for row in found] == [1234567890123456789, 2]
    assert [row["amount"] for row in found] == [9007199254740993, Decimal("0.5")]


def test_values_of_no_one_type(sqlite: Shop) -> None:
    sqlite.insert(1, note="'dear'")
    sqlite.insert(2, note="7.5")
    sqlite.execute(
        "UPDATE orders SET region = 7.5 WHERE id = 2", "UPDATE orders SET region = 'x' WHERE id = 1"
    )
    with pytest.raises(
        InvalidSpec, match=r"column 'region' has values of more than one type .*cast it"
    ):
        rows(sqlite.source(columns=["id", "region"]))


@pytest.mark.parametrize("other", ["9.5", "'n/a'", "''", "x'00'"])
def test_a_range_column_of_sqlites_with_other_values_is_refused(sqlite: Shop, other: str) -> None:
    sqlite.insert(1, 2, region="{id}")
    sqlite.insert(3, region=other)
    sqlite.insert(4)
    value = r"b'\\x00'" if other[0] == "x" else other
    with pytest.raises(InvalidSpec, match=rf"^source\.range_column: 'region' contains {value}, "):
        rows(sqlite.source(range_column="region"))


def test_truth_values_are_no_ranges(shop: Shop) -> None:
    shop.execute("CREATE TABLE flags (id INTEGER, flag BOOLEAN)")
    shop.execute("INSERT INTO flags VALUES (1, '1')")
    with pytest.raises(InvalidSpec, match="'flag' holds bool, but only whole numbers and times"):
        rows(shop.source(table="flags", range_column="flag"))


def test_no_file_is_made_of_a_mistyped_name(tmp_path: Path) -> None:
    wrong = SqlSource(path=f"sqlite:///{tmp_path}/shup.db", table="orders", key="id")
    with pytest.raises(InvalidSpec, match=r"is not a database: there is no file .*shup\.db"):
        check_source(wrong)
    assert not (tmp_path / "shup.db").exists()
    near = SqlSource(path="sqlite:///shop.db", table="orders", key="id")
    with pytest.raises(InvalidSpec, match="has no absolute path: write sqlite:////"):
        check_source(near)


def test_no_row_and_no_database(tmp_path: Path, sqlite: Shop) -> None:
    with pytest.raises(InputNotFound, match="has no row"):
        list_inputs(sqlite.source())
    away = SqlSource(path=f"sqlite:///{tmp_path}", table="orders", key="id")
    with pytest.raises(Unreachable, match="unable to open database file"):
        check_source(away)
    driver = SqlSource(path="postgresql+nosuch://host/name", table="orders", key="id")
    with pytest.raises(InvalidSpec, match="no dialect with that name is installed"):
        check_source(driver)
    bare = SqlSource(path="postgresql://host/name", table="orders", key="id")
    with pytest.raises(InvalidSpec, match=r"psycopg2.*: write postgresql\+psycopg://, for the"):
        check_source(bare)
    unknown = SqlSource(path="nosuch://host/name", table="orders", key="id")
    with pytest.raises(InvalidSpec, match=r"cannot be opened: .*nosuch"):
        check_source(unknown)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://reader:{SECRET}@host/shop",
        f"postgresql://reader:${{HALF}}{SECRET}@host/shop",
        f"postgresql://host/shop?password={SECRET}",
        f"snowflake://host/shop?api_key={SECRET}",
        f"mssql+pyodbc:///?odbc_connect=DRIVER%3DODBC%3BUID%3Dme%3BPWD%3D{SECRET}%3BEncrypt%3Dyes",
    ],
)
def test_a_password_is_refused_and_not_repeated(url: str) -> None:
    raw = {"source": {"kind": "sql", "path": url, "table": "orders", "key": "id"}}
    with pytest.raises(InvalidSpec, match="contains a password: set it in the env") as caught:
        parse_spec({"name": "n", "model": {"kind": "python", "class": "a:B"}, **raw})
    assert SECRET not in str(caught.value)


def test_secrets_come_from_the_environment_and_show_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError

    url = "postgresql+psycopg://${DB_USER}:${DB_PASSWORD}@db.example.com:5432/shop"
    found = SqlSource(path=url, table="sales.orders", key="id")
    with pytest.raises(InvalidSpec, match=r"uses \$\{DB_USER\}, which is not set"):
        check_source(found)
    monkeypatch.setenv("DB_USER", "reader")
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    assert found.root == "postgresql://db.example.com:5432/shop/sales.orders"
    failed = OperationalError("SELECT 1", {}, Exception(f"FATAL {SECRET} is no password"))
    with pytest.raises(ConnectionError, match=r"FATAL \*\*\* is no password") as caught:  # noqa: SIM117
        with without_secrets(url):
            raise failed
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_table_or_query() -> None:
    for fields in ({}, {"table": "a", "query": "SELECT 1"}):
        with pytest.raises(ValidationError, match="set either table or query"):
            SqlSource(path="sqlite:///x.db", key="id", **fields)
