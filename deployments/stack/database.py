"""The database of the stack's Prefect server: a file of its own, or one that a person names."""

import os
from pathlib import Path

from flows.server_database import with_plugin

DATABASE_VARIABLES = (
    "PREFECT_SERVER_DATABASE_CONNECTION_URL",
    "PREFECT_API_DATABASE_CONNECTION_URL",
)
"""Prefect takes the first that is set; the second is the older name."""

SECRET_OPTIONS = ("password", "passfile", "sslpassword")
"""Of a URL's query."""


def given_database() -> str:
    """The URL that the environment has; empty where it has none."""
    return next(filter(None, map(os.environ.get, DATABASE_VARIABLES)), "")


def server_database(folder: Path) -> str:
    """The URL that the stack's server is told.

    Args:
        folder: the stack's, where its own file lies.
    """
    return with_plugin(given_database() or f"sqlite+aiosqlite:///{folder}/prefect.db")


def shown(url: str) -> str:
    """A URL without its password.

    Raises:
        ValueError: it is none, or none that Prefect takes.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    if not url:
        return ""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The former error might quote it.
        parsed = None
    if parsed is None or parsed.drivername not in ("postgresql+asyncpg", "sqlite+aiosqlite"):
        raise ValueError(
            f"{DATABASE_VARIABLES[0]} is not a database URL that Prefect accepts: write "
            "postgresql+asyncpg://user:password@host:5432/name"
        )
    return parsed.difference_update_query(SECRET_OPTIONS).render_as_string()
