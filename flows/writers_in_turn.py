"""SQLite beneath a Prefect server that several runs speak to at once: writers wait for each other.

A plugin of SQLAlchemy's, which the database's URL asks for:
`sqlite+aiosqlite:////data/prefect.db?plugin=writers_in_turn`.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.engine import CreateEnginePlugin
from sqlalchemy.engine.url import URL


class WritersInTurn(CreateEnginePlugin):
    """Has an engine make connections of our kind."""

    def __init__(self, url: URL, kwargs: dict[str, Any]) -> None:
        super().__init__(url, kwargs)
        kwargs["connect_args"] = {**kwargs.get("connect_args", {}), "factory": Connection}

    def update_url(self, url: URL) -> URL:
        """The URL as it is: no option of it is ours."""
        return url


class Cursor(sqlite3.Cursor):
    """One of a connection that a thread of its own works on."""

    def execute(self, sql: str, parameters: Any = (), /) -> "Cursor":
        """Execute a statement; a transaction takes its turn among those that write.

        Prefect's read first and write then. One that has only begun to read is refused at once,
        "database is locked", where another has written since, and Prefect drops what it was at:
        an automation misses the event that it waits for.

        Source: "BEGIN IMMEDIATE" and SQLITE_BUSY_SNAPSHOT in SQLite's documentation.
        """
        if sql == "BEGIN DEFERRED":
            sql = "BEGIN IMMEDIATE"
        with self.closed_where_it_fails():
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> "Cursor":
        """Execute a statement for each of several sets of parameters."""
        with self.closed_where_it_fails():
            return super().executemany(sql, parameters)

    @contextmanager
    def closed_where_it_fails(self) -> Iterator[None]:
        """A block that executes a statement.

        Python 3.11 resets a failed one again when its cursor is collected: by the thread of the
        event loop, which then waits for whatever the connection is at. If that waits for its turn,
        and who has the turn waits for the event loop, the server stands still for as long as
        SQLite has patience: a minute, with Prefect.
        """
        try:
            yield
        except BaseException:
            self.close()
            raise


class Connection(sqlite3.Connection):
    """One whose cursors are ours."""

    def cursor(self, factory: Any = Cursor) -> Any:
        """A cursor."""
        return super().cursor(factory)
