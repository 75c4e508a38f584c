"""A query of the user's as something to select from."""

import re
from collections import Counter
from typing import Any

from tasks.errors import InvalidSpec

FIELD = "source.query"
COLON = re.compile(r"(?<![:\w\\]):(?=\w+(?![:\w]))|\\(?=:\w*(?![:\w]))")
"""What SQLAlchemy takes for a parameter, or for a colon that is none; to a query it is text."""
NUMBERED = re.compile(r":\d+$")
"""How SQLite tells namesakes apart itself, as in id:1."""


def selectable(connection: Any, query: str) -> Any:
    """A query with the names of its columns; none of its rows is read.

    Raises:
        InvalidSpec: it does not run, or two of its columns have one name.
        SQLAlchemyError: the database does not answer.
    """
    import sqlalchemy

    # On a line of its own, the bracket behind it is part of no comment.
    text = sqlalchemy.text(COLON.sub(r"\\\g<0>", query.strip().rstrip(";")) + "\n")
    anything = text.columns().subquery("given")
    star: Any = sqlalchemy.select(sqlalchemy.literal_column("*")).select_from(anything)
    try:
        names = list(connection.execute(star.where(sqlalchemy.false())).keys())
    except sqlalchemy.exc.DBAPIError as error:
        if may_pass(error):
            raise
        problem = f"does not run: {error.orig}; it must be one SELECT without a semicolon"
        raise InvalidSpec.at(FIELD, query, problem) from error
    refuse_namesakes(query, names)
    return text.columns(*map(sqlalchemy.column, names)).subquery("given")


def may_pass(error: Any) -> bool:
    """Whether a database's error is none of the query's: the connection's, or another's lock."""
    return error.connection_invalidated or "locked" in str(error.orig)


def refuse_namesakes(query: str, names: list[str]) -> None:
    """Two columns of one name cannot be told apart.

    Raises:
        InvalidSpec: names them.
    """
    plain = Counter(NUMBERED.sub("", name) for name in names)
    twice = [name for name, count in plain.items() if count > 1]
    if twice:
        problem = f"gives more than one column {', '.join(twice)}: give each its own name with AS"
        raise InvalidSpec.at(FIELD, query, problem)
