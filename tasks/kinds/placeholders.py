"""Placeholders for the scheduled time in paths, as in `{scheduled:%Y-%m-%d}`.

A path without `{scheduled` is taken as it stands, whatever braces it has. In one with it, a brace
that belongs to no placeholder is written twice.
"""

import re
from datetime import datetime

MARK = "{scheduled"
TOKEN = re.compile(r"\{\{|\}\}|\{scheduled:(?P<format>[^{}]*)\}|[{}]")
DIRECTIVE = re.compile(r"%(-?[YymdHIMSjUWVGuw]|[aAbBpfzZ%])")

DIGITS = {"Y": 4, "G": 4, "j": 3, "f": 6, "u": 1, "w": 1, **dict.fromkeys("ymdHIMSUWV", 2)}
"""How long the numbers are that a directive stands for."""


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


def at_any_time(path: str) -> str | None:
    """A glob for the path at whichever time; None where it has words, such as a month's name.

    Of words nothing but `*` would do, which may match what has nothing to do with times.
    """
    tokens = [*TOKEN.finditer(path)]
    directives = [each for token in tokens for each in DIRECTIVE.findall(token["format"] or "")]
    if not directives or any(each[-1] not in DIGITS for each in directives):
        return None
    return TOKEN.sub(digits_of, path)


def digits_of(token: re.Match[str]) -> str:
    """A glob for what may stand for a token."""
    if token["format"] is None:
        return token[0][0]
    return DIRECTIVE.sub(lambda found: numbers(found[1]), token["format"])


def numbers(directive: str) -> str:
    """A glob for a directive's numbers: of a fixed length, or without zeros in front."""
    return "[0-9]*" if directive[0] == "-" else "[0-9]" * DIGITS[directive]


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
