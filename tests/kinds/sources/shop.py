"""A shop's database, for tests of what reads it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tasks.kinds.sources import SqlSource
from tests.postgres import Postgres

TABLE = (
    "CREATE TABLE orders (id INTEGER, region INTEGER, placed_at TIMESTAMP, total NUMERIC(10, 2), "
    "note TEXT, changed INTEGER)"
)


@dataclass(frozen=True)
class Shop:
    """A database with a table of orders."""

    path: str
    """As a spec names it."""
    execute: Callable[..., None]
    """Runs statements, each for good."""

    def insert(self, *ids: int, **values: str) -> None:
        """Add orders; `{id}` in a value is the order's own."""
        names, given = ", ".join(["id", *values]), ", ".join(["{id}", *values.values()])
        rows = (given.format(id=each) for each in ids)
        self.execute(*(f"INSERT INTO orders ({names}) VALUES ({row})" for row in rows))

    def source(self, **fields: Any) -> SqlSource:
        """What reads the orders."""
        given = {"table": "orders", "key": "id", "range_size": 10, **fields}
        return SqlSource(path=self.path, **given)


def sqlite_shop(folder: Path) -> Shop:
    """One in a file."""
    file = folder / "shop.db"

    def execute(*statements: str) -> None:
        with closing(sqlite3.connect(file)) as connection:
            for each in statements:
                connection.execute(each)
            connection.commit()

    execute(TABLE)
    return Shop(f"sqlite:///{file}", execute)


def postgres_shop(server: Postgres) -> Shop:
    """One on a server, read by a role that may not write."""
    path, execute = server.for_reader("shop"), partial(server.execute, "shop")
    execute(TABLE)
    return Shop(path, execute)
