"""What a flow's log says, at the terminal too: else who waits there does not know for what."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from flows.console import escape

FLOWS = Path(__file__).parent
LOGGERS = ("prefect.flow_runs", "prefect.task_runs", "flows", "tasks")


@contextmanager
def log_at_terminal(console: Console) -> Iterator[None]:
    """Until the block ends, show what is logged here for people, and nothing of Prefect's own."""
    handler = AtTerminal(console)
    for name in LOGGERS:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeHandler(handler)


class AtTerminal(logging.Handler):
    """Shows what the flows say, and what the parts below them warn of.

    These also hand on what a job says, which is much, and has its place in Prefect.
    """

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether somebody at a terminal is to see it."""
        least = {FLOWS: logging.INFO, FLOWS.with_name("tasks"): logging.WARNING}
        said_in = Path(record.pathname).parents
        return any(record.levelno >= level for folder, level in least.items() if folder in said_in)

    def emit(self, record: logging.LogRecord) -> None:
        """Show it, a warning so that it is seen."""
        style = "yellow" if record.levelno >= logging.WARNING else "dim"
        text = escape(record.getMessage())
        self.console.print(text, style=style, soft_wrap=True, highlight=False)
