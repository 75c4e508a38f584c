"""Connects to a database, and to the table or query of it whose rows are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.sources.sql_reading import queries
from tasks.kinds.sources.sql_reading.dialects import SQLITE, engine_options, in_utc
from tasks.kinds.sources.sql_reading.secrets import check_file, filled_in, without_secrets
from tasks.kinds.sources.sql_reading.unreadable import hand_over_all, lenient_context

SHOWN_TABLES = 20
"""In an error."""


@dataclass(frozen=True)
class Connection:
    """A database, and what is selected from."""

    url: str
    table: str | None
    query: str | None
    options: tuple[tuple[str, Any], ...]

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A connection, closed afterwards.

        Raises:
            ConnectionError: the database does not answer, or not in the way that was hoped for.
        """
        with without_secrets(self.url), self.engine.connect() as connection:
            in_utc(connection)
            hand_over_all(connection)
            yield connection

    @cached_property
    def engine(self) -> Any:
        """What connections are made by; no connection outlives its use.

        Raises:
            InvalidSpec: a variable of the URL is not set, or there is no such file or option.
            ImportError: the driver's package is missing.
        """
        from sqlalchemy import NullPool, create_engine

        url, options = filled_in(self.url), dict(self.options)
        check_file(url, self.url)
        own = {"poolclass": NullPool, "hide_parameters": True}
        own |= engine_options(url.get_backend_name())
        try:
            engine = create_engine(url, **own, **options)
        except TypeError as error:
            reason = str(error).partition(", using")[0]
            problem = f"are not options of create_engine: {reason}"
            raise InvalidSpec.at("source.storage_options", options, problem) from error
        engine.dialect.execution_ctx_cls = lenient_context(engine.dialect.execution_ctx_cls)
        return engine

    @cached_property
    def rows(self) -> Any:
        """The table or query as something to select from.

        Raises:
            InvalidSpec: there is no such table, or the query does not run.
            ConnectionError: the database does not answer.
        """
        if self.query is None:
            return self.reflected(*self.names)
        with self.connected() as connection:
            return queries.selectable(connection, self.query)

    @property
    def names(self) -> tuple[str, str | None]:
        """The table's name, and its schema's where it is given."""
        schema, _, name = (self.table or "").rpartition(".")
        return name, schema or None

    @property
    def is_table(self) -> bool:
        """Whether it holds its rows itself: a query or a view may leave out some that are there.

        Raises:
            ConnectionError: the database does not answer.
        """
        from sqlalchemy import inspect

        name, schema = self.names
        with without_secrets(self.url):
            return self.query is None and name in inspect(self.engine).get_table_names(schema)

    @property
    def keeps_writers_out(self) -> bool:
        """Whether nobody can write while rows are read: SQLite's writers are told it is locked."""
        return bool(self.engine.dialect.name == SQLITE)

    def reflected(self, name: str, schema: str | None) -> Any:
        """A table with the types of its columns."""
        from sqlalchemy import MetaData, Table
        from sqlalchemy.exc import NoSuchTableError

        with without_secrets(self.url):
            try:
                return Table(
                    name,
                    MetaData(),
                    schema=schema,
                    autoload_with=self.engine,
                    resolve_fks=False,
                )
            except NoSuchTableError as error:
                there = ", ".join(self.tables(schema))
                problem = f"does not exist; there are {there}" if there else "does not exist"
                raise InvalidSpec.at("source.table", self.table, problem) from error

    def tables(self, schema: str | None) -> list[str]:
        """The first tables and views of a schema that this user can see; none where that fails."""
        from sqlalchemy import inspect
        from sqlalchemy.exc import SQLAlchemyError

        try:
            seen = inspect(self.engine)
            names = sorted([*seen.get_table_names(schema), *seen.get_view_names(schema)])
        except SQLAlchemyError:  # as where they may not be listed
            return []
        return names if len(names) <= SHOWN_TABLES else [*names[:SHOWN_TABLES], "..."]

    def column(self, field: str, name: str) -> Any:
        """A column.

        Raises:
            InvalidSpec: it is not there.
        """
        if name not in self.rows.c:
            known = ", ".join(self.rows.c.keys())
            raise InvalidSpec.at(f"source.{field}", name, f"is not among the columns {known}")
        return self.rows.c[name]
