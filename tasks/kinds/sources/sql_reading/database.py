"""A table or query as a store of inputs, each a range of its rows."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.sources.source import ROWS_PER_READ
from tasks.kinds.sources.sql_reading.connection import Connection
from tasks.kinds.sources.sql_reading.dialects import highest_is_last, refuse_others, with_ends
from tasks.kinds.sources.sql_reading.ranges import Numbers, Range, grid, of_group, range_of
from tasks.protocol.object_stat import Info


@dataclass(frozen=True)
class Database(Connection):
    """Ranges of rows where other storages have files: listed, looked at, read.

    It has the few methods of fsspec's filesystems that listing and reading need.
    """

    root: str
    """How inputs' paths begin."""
    key: str
    range_column: str
    range_size: int
    version_column: str | None

    protocol: ClassVar[str] = "sql"

    def facts(self, *, of_numbers: bool, of: Any = None) -> list[Any]:
        """What a range's identity is made of: its rows, its keys, then what tells of changes.

        Args:
            of_numbers: whether the range is one of whole numbers.
            of: some of the rows, with these columns; all of them where None.
        """
        from sqlalchemy import func, literal_column

        given = [self.column("key", self.key)]
        if self.version_column:
            given.append(self.column("version_column", self.version_column))
        key, *versions = given if of is None else [of.c[each.name] for each in given]
        ends = with_ends(key, self.engine.dialect.name)
        found = [func.count(), func.count(key.distinct()), func.min(ends), func.max(ends)]
        if self.has_whole_keys(of_numbers=of_numbers):
            # Remainders, whose sum no database's integers are too small for.
            found.append(func.sum(key % literal_column(str(self.range_size))))
        return [*found, *map(func.max, versions)]

    def has_whole_keys(self, *, of_numbers: bool) -> bool:
        """Whether the keys of a range are known to be whole numbers.

        Args:
            of_numbers: whether the range is one of whole numbers.
        """
        from sqlalchemy import Integer

        is_range = of_numbers and self.key == self.range_column
        return is_range or isinstance(self.column("key", self.key).type, Integer)

    def find(self, path: str, detail: bool = True) -> dict[str, Info]:
        """All ranges that hold rows.

        Raises:
            InvalidSpec: the range column cannot be cut, or the key gives no order.
            ConnectionError: the database does not answer.
        """
        from sqlalchemy import select

        column = self.column("range_column", self.range_column)
        with self.connected() as connection:
            # Not min(), which not all types have.
            sorted_values = select(column).where(column.is_not(None)).order_by(column)
            lowest = connection.execute(sorted_values.limit(1)).scalar()
            try:
                if isinstance(lowest, int):
                    refuse_others(connection, column)
                groups = grid(column, lowest, self.range_size, self.engine.dialect.name)
            except TypeError as error:
                raise self.uncut(error) from error
            facts = self.facts(of_numbers=isinstance(lowest, int))
            lines = connection.execute(select(*groups, *facts).group_by(*groups)).all()
        infos = [self.listed(tuple(line), len(groups)) for line in lines]
        return {info["name"]: info for info in infos}

    def uncut(self, error: TypeError) -> InvalidSpec:
        """What to say of a column that cannot be cut into ranges."""
        if self.range_column == self.key:
            held = "holds text" if str(error) == "holds str" else str(error)
            way_out = "set source.range_column to a column of whole numbers or times"
            problem = f"{held}, which cannot be divided into ranges: {way_out}"
            return InvalidSpec.at("source.key", self.key, problem)
        problem = f"{error}, but only whole numbers and times can be divided into ranges"
        return InvalidSpec.at(
            "source.range_column", self.range_column, problem + ": name another column"
        )

    def listed(self, line: tuple[Any, ...], num_groups: int) -> Info:
        """A range, of a line of what a listing asks for.

        Raises:
            InvalidSpec: the key gives its rows no order.
        """
        each, facts = of_group(line[:num_groups], self.range_size), line[num_groups:]
        if facts[0] != facts[1]:
            problem = (
                f"is empty or repeated: the range {each.name} has {counted(facts[0], 'row')} and "
                f"{counted(facts[1], 'key')}; use a column with unique values and no nulls"
            )
            raise InvalidSpec.at("source.key", self.key, problem)
        return self.info_of(each, facts)

    def info(self, path: str) -> Info:
        """One range; or the whole, where its path is asked for.

        Raises:
            FileNotFoundError: no row is in it.
            InvalidSpec: there is no such table or column.
            ConnectionError: the database does not answer.
        """
        from sqlalchemy import false, select

        if path == self.root:
            nothing = select(*self.facts(of_numbers=False)).where(false())
            with self.connected() as connection:
                connection.execute(nothing)  # which not everybody may
            return {"name": path, "size": 0, "type": "directory"}
        each = range_of(path.removeprefix(f"{self.root}/"))
        facts = self.facts(of_numbers=isinstance(each, Numbers))
        with self.connected() as connection:
            line = tuple(connection.execute(select(*facts).where(self.where(each))).one())
        if not line[0]:
            raise FileNotFoundError(path)
        return self.info_of(each, line)

    def begins_as(self, path: str, identity: str) -> bool:
        """Whether a range's first rows by key are those that it had, updated or not.

        Args:
            path: of the range.
            identity: of then.

        Raises:
            ConnectionError: the database does not answer.
        """
        from sqlalchemy import select

        each = range_of(path.removeprefix(f"{self.root}/"))
        of_numbers = isinstance(each, Numbers)
        key, backend = self.column("key", self.key), self.engine.dialect.name
        # Else it would not show that others had come between them.
        is_told = self.has_whole_keys(of_numbers=of_numbers) or highest_is_last(key, backend)
        names = dict.fromkeys([self.key, self.version_column or self.key])
        rows = select(*(self.rows.c[name] for name in names)).where(self.where(each))
        count = int(identity.partition(":")[0])
        first = rows.order_by(key).limit(count) if is_told else rows
        facts = select(*self.facts(of_numbers=of_numbers, of=first.subquery("first_rows")))
        with self.connected() as connection:
            *keys, last = [str(fact) for fact in connection.execute(facts).one()]
        if not self.version_column:
            return identity == ":".join([*keys, last])
        known = "".join(f"{fact}:" for fact in keys)
        # Of another version, which is written like this one: what else is longer was a longer key.
        return identity.startswith(known) and identity.count(":", len(known)) == last.count(":")

    def info_of(self, each: Range, facts: tuple[Any, ...]) -> Info:
        """A range as a filesystem shows a file; rows stand for bytes, which nobody knows."""
        identity = ":".join(map(str, facts))
        path = f"{self.root}/{each.name}"
        return {"name": path, "size": facts[0], "type": "file", "etag": identity}

    def where(self, each: Range) -> Any:
        """The condition that a row is in a range."""
        column = self.column("range_column", self.range_column)
        return each.holds(column, self.engine.dialect.name)

    def with_values(self, names: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
        """The first rows that have a value in any of some columns, no matter which rows these are.

        Raises:
            ConnectionError: the database does not answer.
        """
        from sqlalchemy import or_, select

        columns = [self.column("columns", name) for name in names]
        # In no order: to sort, it would have to find all of them.
        found = select(*columns).where(or_(*(column.is_not(None) for column in columns)))
        with self.connected() as connection:
            return [tuple(row) for row in connection.execute(found.limit(limit))]

    def read(
        self, path: str, names: Sequence[str], count: int | None = None
    ) -> Generator[list[tuple[Any, ...]], None, None]:
        """A range's rows by key, some at a time; what cannot be read is an `Unreadable` in its row.

        Args:
            path: of the range.
            names: of the columns.
            count: of the first rows that are wanted, beside which others may come; all where None.
                No LIMIT says so: for few rows a database may look at all in the order of the key.

        Raises:
            ConnectionError: the database does not answer.
        """
        from sqlalchemy import select

        parts = None if count is None else math.ceil(count / ROWS_PER_READ)
        each = range_of(path.removeprefix(f"{self.root}/"))
        statement = select(*(self.column("columns", name) for name in names))
        ordered = statement.where(self.where(each)).order_by(self.column("key", self.key))
        with self.connected() as connection:
            streamed = connection.execution_options(stream_results=True)
            with streamed.execute(ordered) as found:
                for some in islice(found.partitions(ROWS_PER_READ), parts):
                    yield [tuple(row) for row in some]

    def invalidate_cache(self) -> None:
        """Nothing is kept."""

    def unstrip_protocol(self, path: str) -> str:
        """A path as people read it."""
        return path

    def _strip_protocol(self, path: str) -> str:
        """The same."""
        return path
