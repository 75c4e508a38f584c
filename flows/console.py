"""The terminal that a person reads: what comes from data is shown there, and does nothing."""

from rich import markup
from rich.console import Console

console = Console(stderr=True, emoji=False)
"""Without emoji, since `:id:` in a path is a part of its name."""

SHOWN_AS_THEY_ARE = "\t\n"
CONTROLS = {
    code: f"\\x{code:02x}"
    for code in (*range(32), *range(127, 160))
    if chr(code) not in SHOWN_AS_THEY_ARE
}
"""Characters that a terminal obeys, and how they are shown."""


def harmless(text: str) -> str:
    """A text that no terminal obeys."""
    return text.translate(CONTROLS)


def escape(text: str) -> str:
    """A harmless text that Rich takes as it stands."""
    return markup.escape(harmless(text))
