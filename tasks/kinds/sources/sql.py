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

    A range of rows is what a file is elsewhere: new ranges are new inputs, and one that has changed
    is predicted again alone. It has where its count of rows, its lowest or highest key, the sum of
    keys that are whole numbers, or its highest version is another. A change that leaves these as
    they were is not seen, between runs nor between attempts of one: name a version_column where
    rows are updated, or replaced under keys that are no whole numbers.

    A table may grow while a run reads it: rows whose keys come after those that were planned are
    the next run's, and so are updates that a version_column tells of; that one predicts their
    ranges again. Where rows come between others of a range, or go, the run is planned anew.

    The output follows a table: rows that were deleted leave it with the next run, one by one or all
    of a range. What a query or a view gives no more need not be deleted, as where it gives the last
    days only. There a range that has no rows any more keeps those that are published, while one
    that has some is predicted again, without those that it has lost. So it is with what was read by
    another URL or other storage_options, which may lead elsewhere, and with what is excluded. Rows
    that a table hides from a role, as by policies, are none to it.
    """

    model_config = ConfigDict(title="A database")
    kind: Literal["sql"] = "sql"
    path: str = Field(
        title="Database",
        min_length=1,
        description="SQLAlchemy's URL, as in postgresql+psycopg://reader:${PASSWORD}@host/shop. "
        "${NAME} stands for an environment variable, here and on every node; a password is "
        "taken in no other way.",
    )
    table: str | None = Field(
        default=None,
        description="Table or view to read, as in orders or sales.orders. Rows that are deleted "
        "from a table leave the output.",
    )
    query: str | None = Field(
        default=None,
        description="Instead of a table: a SELECT that gives the rows. A range of which it gives "
        "none any more keeps what is published.",
    )
    key: str = Field(
        min_length=1,
        description="Column whose values are there and unique, such as the primary key; it gives "
        "the rows of a range their order.",
    )
    range_column: str | None = Field(
        default=None,
        description="Column of whole numbers or times that says which range a row is in, best one "
        "with an index; the key where empty. Empty values are a range of their own, and so are "
        "times of no day, such as infinity.",
    )
    range_size: int = Field(
        default=10_000,
        gt=0,
        description="Whole numbers that one range spans; of times it is always a day, UTC's where "
        "they have a zone.",
    )
    version_column: str | None = Field(
        default=None,
        description="Column that grows whenever a row is updated, such as updated_at: a range "
        "with updated rows is predicted again.",
    )
    columns: list[str] | None = Field(
        default=None, description="Read only these columns; all where empty."
    )
    storage_options: dict[str, Any] = Field(
        default={},
        description="Options of SQLAlchemy's create_engine, such as connect_args. Never secrets.",
    )

    suffixes: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str] = "row"
    names_tell_all: ClassVar[bool] = False
    way_out_of_changes: ClassVar[str] = (
        ": rows came between others of the range, or went; where they do so all the time, leave "
        "out what still changes, by a condition in source.query or by source.exclude, of days as "
        'in ["{scheduled:%Y-%m-%d}"]'
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
                "secret", "holds a password: put it into the environment, and write ${NAME}"
            )
        return path

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("name either table or query")
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
            raise ValueError(f"{error}; no dialect of that name is installed") from error
        except ImportError as error:
            way_out = "pip install the driver here, and name it in environment.pip"
            if error.name == "psycopg2":  # what SQLAlchemy takes a bare postgresql:// for
                way_out = "write postgresql+psycopg://, for the driver of the extra postgres; or "
                way_out += "pip install psycopg2 here, and name it in environment.pip"
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
            "what is published of %s stays, the first of them %s: they have no rows any more, but "
            "%s, which need not give all rows that there are",
            *(counted(len(lost), "range"), lost[0]),
            "they are of a query" if self.query else f"{self.table} is the name of no table",
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
