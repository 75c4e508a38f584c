"""The URL of the database beneath a Prefect server that we start."""

SQLITE = "sqlite+aiosqlite:"
PLUGIN = "writers_in_turn"
"""What SQLite needs there, flows/writers_in_turn.py, by its name in pyproject.toml."""


def with_plugin(url: str) -> str:
    """The URL, with our plugin of SQLAlchemy's where it is SQLite's."""
    if not url.startswith(SQLITE):
        return url
    return f"{url}{'&' if '?' in url else '?'}plugin={PLUGIN}"
