"""Names of what is likely to be secret, so that no message shows it."""

import re
from typing import Any

from tasks.errors import shown

HIDDEN = "***"
SECRET = re.compile(
    r"pass(word|wd|phrase)?(?![a-z])|pwd|secret|token(?![a-z])|credential|authorization"
    r"|[a-z0-9][_.-]?key(?![a-z])|connection_string",
    re.IGNORECASE,
)
"""Names of secrets; a `key` alone, as of a source, is a column."""
BARE_KEY = re.compile(r"key", re.IGNORECASE)
"""What object stores call the one that goes with a secret."""
IN_URL = re.compile(r"://[^/@\s:]*:[^/@\s]+@")


def shown_at(names: list[str], value: Any) -> str:
    """What was given, in a few words; stars where it may be, or hold, a secret.

    Args:
        names: of the fields that lead there.
        value: what was given.
    """
    is_secret = any(map(SECRET.search, names)) or holds_secret(value)
    return HIDDEN if is_secret else shown(value)


def holds_secret(value: Any) -> bool:
    """Whether a value has a part that is named like a secret, or a URL with a password."""
    if isinstance(value, dict):
        names = map(str, value)
        named = any(SECRET.search(name) or BARE_KEY.fullmatch(name) for name in names)
        return named or any(map(holds_secret, value.values()))
    if isinstance(value, list):
        return any(map(holds_secret, value))
    return isinstance(value, str) and IN_URL.search(value) is not None
