"""Tells a condition that is written as in SQL, where Python's way is wanted."""

import re

from tasks.kinds.condition_tree import BACKTICKS, NO_EXPRESSION

QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
HABITS = re.compile(
    r"\b(AND|OR|NOT|IS|IN|NULL|LIKE|BETWEEN|like|between)\b|\bis\s+(not\s+)?null\b"
    r"|<>|&&|\|\||(?<![=<>!])=(?!=)"
)


def with_python_instead(text: str, problem: str) -> str:
    """What is wrong with a condition; where SQL may be the reason, also how Python has it.

    Args:
        text: the condition.
        problem: why it cannot be read.
    """
    if HABITS.search(QUOTED.sub("", text)):
        python = "and, or, not, ==, !=, 1 <= x <= 9, in (...), is None, is not None"
        return f"{problem}; Python's: {python}"
    return f"{problem}; {BACKTICKS}" if problem.startswith(NO_EXPRESSION) else problem
