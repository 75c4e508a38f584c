"""Placeholders for the scheduled time in paths, as in `{scheduled:%Y-%m-%d}`.

A path without `{scheduled` is taken as it stands, whatever braces it has. In one with it, a brace
that belongs to no placeholder is written twice.
"""

import re
from datetime import datetime, tzinfo
from functools import partial
from itertools import product

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


def at_any_time(path: str, zone: tzinfo) -> list[str]:
    """Globs for the path at whichever time, one for each of the words that it may have.

    Args:
        path: with placeholders.
        zone: of the times.
    """
    tokens = TOKEN.finditer(path)
    names = {each[-1] for token in tokens for each in DIRECTIVE.findall(token["format"] or "")}
    found = (TOKEN.sub(partial(glob_at, time), path) for time in times_of_words(names, zone))
    return list(dict.fromkeys(found))


def times_of_words(names: set[str], zone: tzinfo) -> list[datetime]:
    """Times at which some directives stand for every word that they may: a day of each name, ..."""
    months = range(1, 13) if names & {*"bBZ"} else [1]
    days = range(1, 8) if names & {*"aA"} else [1]
    hours = (0, 12) if "p" in names else [0]
    return [datetime(2026, *each, tzinfo=zone) for each in product(months, days, hours)]


def glob_at(time: datetime, token: re.Match[str]) -> str:
    """A glob for what may stand for a token, with the words of a time."""
    if token["format"] is None:
        return token[0][0]
    return DIRECTIVE.sub(lambda found: numbers(found[1], time), token["format"])


def numbers(directive: str, time: datetime) -> str:
    """A glob for a directive's numbers, of a fixed length or without zeros in front; or its word.

    Args:
        directive: as strftime knows it, without its sign.
        time: whose word it is.
    """
    if directive[0] == "-":
        return "[0-9]*"
    if directive == "z":
        return "[+-]" + "[0-9]" * 4
    digits = DIGITS.get(directive)
    return time.strftime(f"%{directive}") if digits is None else "[0-9]" * digits


def literal(path: str) -> str:
    """A path that `fill` takes for the given one."""
    return path.replace("{", "{{").replace("}", "}}") if MARK in path else path


def check_placeholders(path: str) -> str:
    """The path, if its placeholders can be filled in.

    Raises:
        ValueError: says what cannot, and what to write.
    """
    named: set[str] = set()
    for token in TOKEN.finditer(path if MARK in path else ""):
        if token["format"] is not None:
            check_format(token["format"])
            named |= {each[-1] for each in DIRECTIVE.findall(token["format"])}
        elif len(token[0]) == 1:
            raise ValueError(
                f"{path!r} has a brace outside {{scheduled:%Y-%m-%d}}: write that, or double the "
                "brace if it is part of the name"
            )
    refuse_other_year(named)
    return path


def refuse_other_year(named: set[str]) -> None:
    """Refuse a path that is, around New Year, the one of another week or day.

    Its inputs would be taken for those that are published, and never be read.

    Args:
        named: directives of its placeholders.

    Raises:
        ValueError: says which year to write.
    """
    if "V" in named and not named & {*"GmbBj"} and named & {*"Yy"}:
        way_out = "the week %V may belong to the next or the last year: write %G for its year"
    elif "G" in named and "V" not in named:
        way_out = "%G is the year of a week %V: write %Y for a date, and for a week %U or %W"
    else:
        return
    raise ValueError(f"around New Year it can mean another time too: {way_out}")


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
