"""URLs of databases: secrets come from the environment, and show in no message."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.errors import InvalidSpec

VARIABLE = re.compile(r"\$\{(\w+)\}")
SECRET_NAME = re.compile(r"pass|pwd|secret|token|credential|(api|access)_?key", re.IGNORECASE)
WITHIN = re.compile(r"(?:^|;)\s*(?:pwd|password)\s*=([^;]*)", re.IGNORECASE)
"""A password within a value, as ODBC has it."""
HIDDEN = "***"


def holds_secret(url: str) -> bool:
    """Whether a URL spells out a password, or a parameter that is named like one or holds one.

    Raises:
        ValueError: it is no URL.
    """
    parsed = parse(url)
    named = [str(value) for name, value in parsed.query.items() if SECRET_NAME.search(name)]
    within = [found for value in parsed.query.values() for found in WITHIN.findall(str(value))]
    given = [parsed.password or "", *named, *within]
    return any(VARIABLE.sub("", each).strip("{} ") for each in given)


def parse(url: str) -> Any:
    """A URL in its parts.

    Raises:
        ValueError: it is none; the message does not quote it.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ValueError(
            "is not a database URL: write dialect+driver://user:${PASSWORD}@host/name"
        ) from error


def filled_in(url: str) -> Any:
    """The URL in its parts, with the values of its variables.

    Raises:
        InvalidSpec: the environment has no such variable.
    """
    if missing := [name for name in VARIABLE.findall(url) if name not in os.environ]:
        problem = f"uses ${{{missing[0]}}}, which is not set in the environment: set it here "
        raise InvalidSpec.at("source.path", url, problem + "and on every node")
    parsed = parse(url)
    # Part by part: a password with an @ in it must not end the URL's user.
    return parsed.set(
        username=value_of(parsed.username),
        password=value_of(parsed.password),
        host=value_of(parsed.host),
        database=value_of(parsed.database),
        query={name: value_of(value) for name, value in parsed.query.items()},
    )


def check_file(parsed: Any, url: str) -> None:
    """See that SQLite's file is there: it would make an empty one.

    Args:
        parsed: the URL in its parts, filled in.
        url: as the spec has it, for messages.

    Raises:
        InvalidSpec: it is not, or each process would look for it in another folder.
    """
    file = parsed.database or ""
    if parsed.get_backend_name() != "sqlite" or file.startswith((":memory:", "file:")) or not file:
        return
    if not os.path.isabs(file):
        problem = "has no absolute path: write sqlite:////folder/file.db, with four slashes"
        raise InvalidSpec.at("source.path", url, problem)
    if not os.path.exists(file):
        raise InvalidSpec.at("source.path", url, f"is not a database: there is no file {file}")


def value_of(text: Any) -> Any:
    """A part of a URL with the values of its variables."""
    if not isinstance(text, str):
        return text
    return VARIABLE.sub(lambda found: os.environ[found[1]], text)


@contextmanager
def without_secrets(url: str) -> Iterator[None]:
    """Errors of the database, as errors of a network, without the values of the URL's variables.

    Raises:
        ConnectionError: in place of what the driver or SQLAlchemy raise.
    """
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        message = f"{type(error).__name__}: {error}"
        for name in VARIABLE.findall(url):
            if value := os.environ.get(name):
                message = message.replace(value, HIDDEN)
        # The former error would carry the secret into every traceback.
        raise ConnectionError(message) from None
