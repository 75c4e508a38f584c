"""Placeholders for the scheduled time in paths, as in `{scheduled:%Y-%m-%d}`.

A path without `{scheduled` is taken as it stands, whatever braces it has. In one with it, a brace
that belongs to no placeholder is written twice.
"""

import re
from datetime import datetime

MARK = "{scheduled"
TOKEN = re.compile(r"\{\{|\}\}|\{scheduled:(?P<format>[^{}]*)\}|[{}]")
DIRECTIVE = re.compile(r"%(-?[YymdHIMSjUWVGuw]|[aAbBpfzZ%])")


def fill(path: str, time: datetime) -> str:
    """The path at a time.

    Args:
        path: with placeholders or without.
        time: in the timezone that the path speaks of.
    """
    if MARK not in path:
        return path
    return TOKEN.sub(lambda token: at_token(token, time), path)


def at_token(token: re.Match[str], time: datetime) -> str:
    """What stands for a token: a time, or the brace that was written twice."""
    return token[0][0] if token["format"] is None else time.strftime(token["format"])


def is_timed(path: str) -> bool:
    """Whether a path has a placeholder."""
    return MARK in path and any(token["format"] for token in TOKEN.finditer(path))


def literal(path: str) -> str:
    """A path that `fill` takes for the given one."""
    return path.replace("{", "{{").replace("}", "}}") if MARK in path else path


def check_placeholders(path: str) -> str:
    """The path, if its placeholders can be filled in.

    Raises:
        ValueError: says what cannot, and what to write.
    """
    for token in TOKEN.finditer(path if MARK in path else ""):
        if token["format"] is not None:
            check_format(token["format"])
        elif len(token[0]) == 1:
            raise ValueError(
                f"in {path!r} a brace belongs to no {{scheduled:%Y-%m-%d}}: write that, or the "
                "brace twice where it is part of the name"
            )
    return path


def check_format(text: str) -> None:
    """Refuse a format that holds no part of a time, or one that nobody knows.

    Raises:
        ValueError: says which.
    """
    left = DIRECTIVE.sub("", text)
    if "%" in left or not DIRECTIVE.search(text):
        problem = f"{left[left.index('%') :][:2]!r} is unknown" if "%" in left else "names no time"
        raise ValueError(
            f"{{scheduled:{text}}} cannot be filled in, {problem}: use strftime's %Y %m %d %H %M "
            "%j %V and the like"
        )
