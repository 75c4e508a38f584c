"""Tells a condition that is written as in SQL, where Python's way is wanted."""

import re

QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
HABITS = re.compile(
    r"\b(AND|OR|NOT|IS|IN|NULL|LIKE|BETWEEN)\b|\bis\s+(not\s+)?null\b|<>|(?<![=<>!])=(?!=)"
)


def with_python_instead(text: str, problem: str) -> str:
    """What is wrong with a condition; where SQL is the reason, also how Python has it.

    Args:
        text: the condition.
        problem: why it cannot be read.
    """
    if HABITS.search(QUOTED.sub("", text)):
        return f"{problem}; Python's: and, or, not, ==, !=, in (...), is None, is not None"
    return problem
