"""Values that a driver or SQLAlchemy cannot read: each costs its own row, not all of its range."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tasks.kinds.sources.sql_reading.dialects import SQLITE

TIMES = ("date", "timestamp", "timestamptz")
"""Postgres's, of which Python lacks infinity, years before the first, and those after 9999."""


@dataclass(frozen=True, repr=False)
class Unreadable:
    """What stands where a value should; as it is, Arrow would take a whole number for a time."""

    raw: Any
    error: Exception

    def __repr__(self) -> str:
        # Part of a range's identity where it is the highest version: the same each time.
        return repr(self.raw)


class UnreadableTime(Unreadable):
    """The same where a time should be, which tells that its column is one of times."""


def hand_over_all(connection: Any) -> None:
    """Let a connection's driver hand over what it cannot read, too."""
    driver = connection.connection.driver_connection
    if connection.dialect.name == SQLITE:
        driver.text_factory = text_of
    elif connection.dialect.driver == "psycopg":
        hand_over_all_times(driver.adapters)


def text_of(stored: bytes) -> str | Unreadable:
    """SQLite's text, which nobody has seen to be UTF-8."""
    try:
        return stored.decode()
    except UnicodeDecodeError as error:
        return Unreadable(stored, error)


def hand_over_all_times(adapters: Any) -> None:
    """Let psycopg hand over times that Python has none of.

    Args:
        adapters: the connection's own.
    """
    from psycopg.pq import Format

    for name in TIMES:
        strict = adapters.get_loader(adapters.types[name].oid, Format.TEXT)
        adapters.register_loader(name, lenient_loader(strict))


def lenient_loader(strict: type[Any]) -> type[Any]:
    """A loader of psycopg's that hands over what another refuses."""
    from psycopg import DataError
    from psycopg.adapt import Loader

    class LenientLoader(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self.strict = strict(oid, context)

        def load(self, data: Any) -> Any:
            try:
                return self.strict.load(data)
            except DataError as error:
                return UnreadableTime(bytes(data).decode(), error)

    return LenientLoader


def lenient_context(strict: type[Any]) -> type[Any]:
    """How SQLAlchemy executes, but that a value which its type refuses is an `Unreadable`."""
    from sqlalchemy import Date, DateTime

    def get_result_processor(self: Any, type_: Any, *others: Any) -> Any:
        process = strict.get_result_processor(self, type_, *others)
        kind = UnreadableTime if isinstance(type_, (Date, DateTime)) else Unreadable
        return lenient(process, kind) if process else None

    return type(strict.__name__, (strict,), {"get_result_processor": get_result_processor})


def as_whole(stored: Any, found: Any) -> Any:
    """What a type makes of a whole number: of SQLite's decimals the number itself.

    SQLAlchemy writes it as a float first, which changes the last digits of a long one.
    """
    is_changed = isinstance(found, Decimal) and isinstance(stored, int) and found != stored
    return Decimal(stored) if is_changed else found


def lenient(process: Callable[[Any], Any], kind: type[Unreadable]) -> Callable[[Any], Any]:
    """What a type makes of a value; it itself, as a `kind`, where the type refuses it."""

    def process_or_keep(value: Any) -> Any:
        if isinstance(value, Unreadable):
            return value
        try:
            return as_whole(value, process(value))
        except Exception as error:  # of whatever class: it is about this value alone
            return kind(value, error)

    return process_or_keep
