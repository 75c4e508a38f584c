"""What databases do differently, and is to be the same here."""

from typing import Any

POSTGRES = "postgresql"
TAKE_JSON = (POSTGRES, "sqlite", "mysql", "mariadb")
"""Whose JSON SQLAlchemy would make into objects."""


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
