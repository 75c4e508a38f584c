"""The terminal that a person reads: what comes from data is shown there, and does nothing."""

from contextlib import suppress
from typing import Any

from rich import markup
from rich.console import Console


class Terminal(Console):
    """A console that runs do without: who reads it may have gone, or its disk be full."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Show something, as far as it can be shown."""
        with suppress(OSError):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Go on without: Rich would end the process, and close its standard output."""
        self.quiet = True


console = Terminal(stderr=True, emoji=False)
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
