"""What databases do differently, and is to be the same here."""

from typing import Any

POSTGRES = "postgresql"
SQLITE = "sqlite"
TAKE_JSON = (POSTGRES, SQLITE, "mysql", "mariadb")
"""Whose JSON SQLAlchemy would make into objects."""


def types_tell(backend: str) -> bool:
    """Whether a column's type says what all of its values are, and what they are handed over as.

    SQLite's columns take values of any type; of other databases' drivers nobody has seen it.
    """
    return backend == POSTGRES


def engine_options(backend: str) -> dict[str, Any]:
    """Options of create_engine by which JSON stays the text that the database has.

    Objects could not be told from arrays, nor JSON's strings from text.
    """
    return {"json_deserializer": as_text} if backend in TAKE_JSON else {}


def as_text(value: str | bytes) -> str:
    """JSON, as drivers hand it over."""
    return value.decode() if isinstance(value, bytes) else value


def in_utc(connection: Any) -> None:
    """Let times with a zone be UTC's: on each node the same ones are of one day.

    A rollback undoes it, so that nobody who shares the connection through a pooler has it.
    """
    if connection.dialect.name == POSTGRES:
        connection.exec_driver_sql("SET TIME ZONE 'UTC'")


def with_ends(key: Any, backend: str) -> Any:
    """A key as something that has a lowest and a highest: on Postgres UUIDs have none."""
    from sqlalchemy import Text, Uuid, cast
    from sqlalchemy.types import NullType

    # A query's columns are of no known type.
    types = (Uuid, NullType) if backend == POSTGRES else (Uuid,)
    return cast(key, Text) if isinstance(key.type, types) else key


def highest_is_last(key: Any, backend: str) -> bool:
    """Whether the highest of the keys, as `with_ends` has them, is last of rows sorted by key.

    Not where numbers may be compared as texts; and of UUIDs Postgres alone is known to sort so.
    """
    from sqlalchemy import Uuid

    is_sorted_alike = backend == POSTGRES and isinstance(key.type, Uuid)
    return is_sorted_alike or with_ends(key, backend) is key


def day_parts(column: Any, backend: str) -> list[Any]:
    """Year, month and day of a column's times; all empty where Python has no such day."""
    from sqlalchemy import case, extract

    of_days = case((is_on_a_day(column, backend), column))
    return [extract(part, of_days) for part in ("year", "month", "day")]


def is_on_a_day(column: Any, backend: str) -> Any:
    """The condition that a time is on a day that Python has; infinity is on none."""
    from sqlalchemy import and_, extract, func, literal_column

    # Written out: databases take two parameters for two different things to group by.
    if backend != SQLITE:
        return extract("year", column).between(literal_column("1"), literal_column("9999"))
    # It makes a day of nearly anything: of 31 February one in March, of 12:30 one in 2000.
    written = func.substr(column, literal_column("1"), literal_column("10"))
    meant = func.date(written, literal_column("'+0 days'"))
    return and_(written == meant, written > literal_column("'0001'"))


def refuse_others(connection: Any, column: Any) -> None:
    """See that a column whose lowest value is a whole number has no other values: SQLite's may.

    Raises:
        TypeError: it has one, which would be of no range, or of one that does not find it.
    """
    from sqlalchemy import func, select

    if connection.dialect.name != SQLITE:
        return
    are_others = func.typeof(column).not_in(["integer", "null"])
    other = connection.execute(select(column).where(are_others).limit(1)).scalar()
    if other is not None:
        raise TypeError(f"contains {other!r}")
