"""Rows of a database's table or query, in ranges of a column."""

import hashlib
import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.sources.input_names import is_excluded
from tasks.kinds.sources.source import Read, Source, pins_of, schema_of
from tasks.kinds.sources.sql_reading import arrow, secrets
from tasks.kinds.sources.sql_reading.database import Database
from tasks.kinds.sources.sql_reading.fetched_rows import fetched_first
from tasks.kinds.sources.sql_reading.inferring import inferred
from tasks.kinds.sources.sql_reading.ranges import is_range, order_of, range_of
from tasks.kinds.sources.table_reading.carried import GONE
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage

logger = logging.getLogger(__name__)

RANGES_TO_INFER = 10
BYTES_HELD = 256 << 20
"""Of a range, fetched before a model is at work on it: of more, the first would be waited for. The
connection is let go then: its transaction would stay open, which servers end after a while, and
replicas soon."""


class SqlSource(Source):
    """Rows of a table or query of any database that SQLAlchemy knows.

    A range of rows is what a file is elsewhere: new ranges are new inputs, and a changed one is
    predicted again, alone. A range counts as changed if its number of rows, its lowest or highest
    key, the sum of its keys (if they are whole numbers) or its highest version differs. A change
    that leaves these as they were is not seen, between runs or between attempts of one: name a
    version_column if rows are updated, or replaced under keys that are not whole numbers.

    A table may grow while a run reads it: rows whose keys come after the planned ones are left to
    the next run, and so are updates that a version_column shows; that run predicts their ranges
    again. If rows appear between others of a range, or disappear, the run is planned anew.

    The output follows a table: deleted rows, single ones or a whole range, leave it with the next
    run. Rows that a query or view no longer gives are not necessarily deleted, for example if it
    gives only the last days. A range of which it gives no rows any more therefore keeps the
    published ones; one that still has rows is predicted again, without those it has lost. The same
    holds for rows read by another URL or other storage_options, which may lead elsewhere, and for
    excluded ones. Rows that a table hides from a role, for example by policies, count as not there.
    """

    model_config = ConfigDict(title="SQL")
    kind: Literal["sql"] = "sql"
    path: str = Field(
        title="SQL",
        min_length=1,
        description="SQLAlchemy's URL, as in postgresql+psycopg://reader:${PASSWORD}@host/shop. "
        "${NAME} stands for an environment variable, here and on every node; a password is "
        "accepted in no other way.",
    )
    table: str | None = Field(
        default=None,
        description="Table or view to read, as in orders or sales.orders. Rows deleted from a "
        "table leave the output.",
    )
    query: str | None = Field(
        default=None,
        description="Instead of a table: a SELECT that gives the rows. A range of which it no "
        "longer gives any keeps what is published.",
    )
    key: str = Field(
        min_length=1,
        description="Column of unique values, none of them empty, such as the primary key; it "
        "orders the rows of a range.",
    )
    range_column: str | None = Field(
        default=None,
        description="Column of whole numbers or times that decides which range a row is in, best "
        "one with an index. Empty: the key. Empty values are a range of their own, and so are "
        "times without a day, such as infinity.",
    )
    range_size: int = Field(
        default=10_000,
        gt=0,
        description="Whole numbers that one range spans; for times a range is always a day, in UTC "
        "if they have a zone.",
    )
    version_column: str | None = Field(
        default=None,
        description="Column that grows whenever a row is updated, such as updated_at: a range "
        "with updated rows is predicted again.",
    )
    columns: list[str] | None = Field(
        default=None, description="Read only these columns. Empty: all."
    )
    storage_options: dict[str, Any] = Field(
        default={},
        description="Options of SQLAlchemy's create_engine, such as connect_args. Never secrets.",
    )

    suffixes: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str] = "row"
    names_tell_all: ClassVar[bool] = False
    looks_at_all: ClassVar[bool] = True
    way_out_of_changes: ClassVar[str] = (
        ": rows were inserted into the range or deleted from it; if that happens all the time, "
        "leave out what still changes with a condition in source.query or with source.exclude, "
        'for days ["{scheduled:%Y-%m-%d}"]'
    )

    @field_validator("path")
    @classmethod
    def _no_secret(cls, path: str) -> str:
        # An error of another type would be shown with the value.
        try:
            holds_secret = secrets.holds_secret(path)
        except ValueError as error:
            raise PydanticCustomError("secret", "{reason}", {"reason": str(error)}) from None
        if holds_secret:
            raise PydanticCustomError(
                "secret", "contains a password: set it in the environment and write ${NAME} here"
            )
        return path

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("set either table or query")
        return self

    @property
    def cut(self) -> Any:
        """Ranges of another table, column or size hold other rows under the same names."""
        return [self.table, self.query, self.key, self.range_column, self.range_size]

    @property
    def root(self) -> str:
        """How the paths of inputs begin: the database and the table, without a user."""
        parsed = secrets.parse(self.path)
        host = f"{parsed.host or ''}{f':{parsed.port}' if parsed.port else ''}"
        database = str(parsed.database or "").strip("/")
        digest = hashlib.sha256((self.query or "").encode()).hexdigest()[:8]
        return f"{parsed.get_backend_name()}://{host}/{database}/{self.table or f'query-{digest}'}"

    def opened(self, url: str) -> tuple[FsspecStorage, str]:
        """The database, and the table in it; a URL of a database names no more.

        Raises:
            ValueError: no driver is known for the URL.
            ImportError: its package is missing.
        """
        from sqlalchemy.exc import ArgumentError

        database = Database(
            url=self.path,
            root=self.root,
            table=self.table,
            query=self.query,
            key=self.key,
            range_column=self.range_column or self.key,
            range_size=self.range_size,
            version_column=self.version_column,
            options=tuple(self.storage_options.items()),
        )
        try:
            assert database.engine
        except ArgumentError as error:
            raise ValueError(f"{error}; no dialect with that name is installed") from error
        except ImportError as error:
            way_out = "pip install the driver here, and list it in environment.pip"
            if error.name == "psycopg2":  # what SQLAlchemy takes a bare postgresql:// for
                way_out = "write postgresql+psycopg://, for the driver of the extra postgres; or "
                way_out += "pip install psycopg2 here, and list it in environment.pip"
            raise ImportError(f"{error}: {way_out}") from error
        return FsspecStorage(database), self.root

    def chosen(self, storage: FsspecStorage, inputs: Stats) -> Stats:
        """The ranges in the order of their values, not of their names."""
        size = len(self.root) + 1
        return Stats.of(sorted(inputs, key=lambda stat: order_of(range_of(stat.path[size:]))))

    def left(self, storage: FsspecStorage, inputs: Stats, published: pa.Table) -> Stats:
        """What is not published as it is, and ranges of the table that have no rows any more."""
        left = super().left(storage, inputs, published)
        if not (lost := self.lost(inputs, published)):
            return left
        if storage.filesystem.is_table:
            return Stats.of([*left, *(Stat(path, 0, GONE) for path in lost)])
        logger.info(
            "what is published of %s stays, the first of them %s: they have no rows now, but %s, "
            "which may not return all rows",
            *(counted(len(lost), "range"), lost[0]),
            "they come from a query" if self.query else f"{self.table} is not a table",
        )
        return left

    def lost(self, inputs: Stats, published: pa.Table) -> list[str]:
        """Published ranges that are not there any more, less those that are excluded.

        Of another database, table or query none is: these are in the names of ranges. And a grid
        is never another: `cut` tells, and is compared first.
        """
        known = published.filter(pc.not_equal(published["identity"], GONE))["path"].to_pylist()
        root, there = f"{self.root}/", {stat.path for stat in inputs}
        gone = [path for path in known if path.startswith(root) and path not in there]
        # What lies deeper is of a table that is named alike.
        ranges = sorted({path for path in gone if is_range(path.removeprefix(root))})
        return [path for path in ranges if not is_excluded(path, self.exclude)]

    def pin(self, storage: FsspecStorage, inputs: Sequence[Stat]) -> dict[str, Any]:
        """Infer types from the first rows of some ranges; what these lack, from wherever it is.

        Raises:
            InvalidSpec: one of `columns` is not there, or has no type.
        """
        database: Database = storage.filesystem
        names = list(dict.fromkeys(self.columns or database.rows.c.keys()))
        try:
            schema = inferred(database, [stat.path for stat in inputs[:RANGES_TO_INFER]], names)
        except TypeError as error:
            raise InvalidSpec(f"source.columns: {error}") from error
        return pins_of(schema)

    def split(self, storage: FsspecStorage, stat: Stat) -> list[Shard]:
        """A range is a shard; one that has left the table has no rows."""
        rows = self.count_rows(storage, stat)
        return [Shard(0, stat.path, stat.identity, stat.size, rows=rows)]

    def count_rows(self, storage: FsspecStorage, stat: Stat) -> int:
        """Rows of a range, which its identity begins with."""
        return 0 if stat.identity == GONE else int(stat.identity.partition(":")[0])

    def is_unchanged(self, storage: FsspecStorage, shard: Shard) -> bool:
        """Whether a range's first rows by key are those that were planned: no others are read."""
        if super().is_unchanged(storage, shard):
            return True
        return bool(storage.filesystem.begins_as(shard.path, shard.identity))

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the range's rows by key; one with a value that does not fit is a bad row.

        No more are fetched than were planned, as a limited run plans few: it may have millions.
        """
        database, schema = storage.filesystem, schema_of(pins["schema"])
        fetched = database.read(shard.path, schema.names, shard.rows)
        reads = (read for rows in fetched for read in arrow.conformed(rows, schema))
        yield from fetched_first(reads, math.inf if database.keeps_writers_out else BYTES_HELD)
