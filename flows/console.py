"""What a command says: to a person, whose terminal data does nothing to, and to programs.

Who is told may have gone, or its disk be full. What was done is done all the same, and the exit
code says so.
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import IO, Any, TextIO

from rich import markup
from rich.console import Console

FIRST_OTHER = 3
"""The first file descriptor that is no standard stream's."""


class Terminal(Console):
    """A console that runs do without: who reads it may have gone, or its disk be full."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Show something, as far as it can be shown."""
        with doing_without(self.file):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Go on without: Rich would end the process, and close its standard output."""
        give_up(self.file)


def take_closed_streams() -> None:
    """See that what is opened from here on is not taken for a standard stream that was closed.

    A socket would have its number, and a process that inherits it its own input in that place.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) < FIRST_OTHER:
        os.set_inheritable(opened, True)
    os.close(opened)


def show_all_characters() -> None:
    """Have standard output show what its encoding has not as standard error does, escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def may_be_drawn_over() -> bool:
    """Whether standard error is a terminal, and no file that whoever forces colours upon it reads.

    Bars in the log of a CI job would be ten frames a second.
    """
    return sys.stderr is not None and sys.stderr.isatty()


console = Terminal(
    stderr=True, emoji=False, force_interactive=None if may_be_drawn_over() else False
)
"""What goes on. Without emoji, since `:id:` in a path is a part of its name."""

results = Terminal(emoji=False)
"""What was asked for, on standard output; with --json beside `console`, see `kept_for_programs`."""

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


def say(words: str) -> None:
    """Tell a person something, as it stands."""
    if sys.stderr is None:  # it was closed, and print would take standard output in its place
        return
    with doing_without(sys.stderr):
        print(harmless(words), file=sys.stderr, flush=True)


KEPT: list[TextIO] = []
"""Standard output, while it is kept for programs."""


@contextmanager
def kept_for_programs() -> Iterator[None]:
    """A block in which `print_json` alone writes to standard output.

    What models and steps print in this process is for people: a line that they leave open would
    become a part of the report's.
    """
    if sys.stdout is None:  # it was closed
        yield
        return
    KEPT.append(out_of_reach(sys.stdout))
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        KEPT.pop()


def out_of_reach(stream: TextIO) -> TextIO:
    """The same standard output, which what this process calls cannot write to any more.

    Code in C knows no `sys.stdout` but file descriptor 1, and so do processes that are started
    here. It is not given back: C may keep what it prints until the process ends.
    """
    with suppress(OSError):  # it is no file, as in a test
        if stream.fileno() == 1:
            kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
            os.dup2(2, 1)
            return kept
    return stream


def print_json(report: dict[str, Any]) -> None:
    """Tell a program something: one line on standard output."""
    stream = KEPT[-1] if KEPT else sys.stdout
    with doing_without(stream):
        print(json.dumps(report), file=stream, flush=True)


@contextmanager
def doing_without(stream: IO[str]) -> Iterator[None]:
    """A block that writes to a stream, as far as that can be written to."""
    try:
        yield
    except OSError as error:
        give_up(stream)
        if stream is not sys.stderr:
            say(f"the results are lost: standard output: {error.strerror}")


def give_up(stream: IO[str]) -> None:
    """Write to a stream no more: what is left in it would fail anew at the end, as exit 120."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
