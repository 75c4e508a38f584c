"""SQLite beneath a Prefect server that several runs speak to at once: writers take turns.

A plugin of SQLAlchemy's, which the database's URL asks for:
`sqlite+aiosqlite:////data/prefect.db?plugin=writers_in_turn`.
"""

import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.engine import CreateEnginePlugin
from sqlalchemy.engine.url import URL

WRITING = ("BEGIN IMMEDIATE", "INSERT", "UPDATE", "DELETE")
"""How those of Prefect's statements begin that SQLite lets one connection alone do at a time."""
PATIENCE_SECONDS = 60.0
"""As long as SQLite's, with Prefect, which sets that once it is connected."""


class WritersInTurn(CreateEnginePlugin):
    """Has an engine make connections of our kind."""

    def __init__(self, url: URL, kwargs: dict[str, Any]) -> None:
        super().__init__(url, kwargs)
        kwargs["connect_args"] = {**kwargs.get("connect_args", {}), "factory": Connection}

    def update_url(self, url: URL) -> URL:
        """The URL as it is: no option of it is ours."""
        return url


class Turns:
    """Who writes, and who is next: whoever asked first.

    SQLite has those who wait try again now and then, and lets in whoever tries at the right moment:
    what is told of two events soon after one another may be looked at in the other order, and an
    automation take a run for silent that has spoken.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.queue: list[object] = []

    def take(self, who: object) -> None:
        """Wait for one's turn; whoever loses patience goes on, and SQLite decides."""
        with self.changed:
            self.queue.append(who)
            self.changed.wait_for(lambda: self.queue[0] is who, PATIENCE_SECONDS)

    def give_back(self, who: object) -> None:
        """Let the next one go on; nothing where it has no turn."""
        with self.changed:
            if who in self.queue:
                self.queue.remove(who)
                self.changed.notify_all()


TURNS: dict[str, Turns] = {}
"""Of each database, in this process; those of others are SQLite's to keep apart."""


class Cursor(sqlite3.Cursor):
    """One of a connection that a thread of its own works on."""

    connection: "Connection"

    def execute(self, sql: str, parameters: Any = (), /) -> "Cursor":
        """Execute a statement; a transaction takes its turn among those that write.

        Prefect's read first and write then. One that has only begun to read is refused at once,
        "database is locked", where another has written since, and Prefect drops what it was at:
        an automation misses the event that it waits for.

        Source: "BEGIN IMMEDIATE" and SQLITE_BUSY_SNAPSHOT in SQLite's documentation.
        """
        if sql == "BEGIN DEFERRED":
            sql = "BEGIN IMMEDIATE"
        with self.closed_where_it_fails(), self.connection.in_turn(sql):
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> "Cursor":
        """Execute a statement for each of several sets of parameters."""
        with self.closed_where_it_fails(), self.connection.in_turn(sql):
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
    """One whose cursors are ours, and whose transactions take turns with those of others."""

    def __init__(self, database: Any, *given: Any, **named: Any) -> None:
        super().__init__(database, *given, **named)
        self.turns = TURNS.setdefault(str(database), Turns())
        self.ticket = object()
        weakref.finalize(self, self.turns.give_back, self.ticket)  # where nobody closes it

    def cursor(self, factory: Any = Cursor) -> Any:
        """A cursor."""
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Execute a statement, with a cursor of ours: Python's own method would take its own."""
        return self.cursor().execute(sql, parameters)

    def commit(self) -> None:
        """Commit."""
        with self.in_turn():
            super().commit()

    def rollback(self) -> None:
        """Roll back."""
        with self.in_turn():
            super().rollback()

    def close(self) -> None:
        """Close."""
        try:
            super().close()
        finally:
            self.turns.give_back(self.ticket)

    @contextmanager
    def in_turn(self, sql: str = "") -> Iterator[None]:
        """A block after which it is the next one's turn, unless a transaction is open.

        Also where a single statement writes, without a transaction: it would be let in last, and
        what puts away a trigger that has gone off comes too late, so that it goes off once more.

        Args:
            sql: what is done in it.
        """
        try:
            if sql.startswith(WRITING) and not self.in_transaction:
                self.turns.take(self.ticket)
            yield
        finally:
            if not self.in_transaction:
                self.turns.give_back(self.ticket)
