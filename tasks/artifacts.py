"""What Prefect shows of a run; the keys follow from the spec's name, so that runs line up."""

import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context

logger = logging.getLogger(__name__)

NOT_IN_KEYS = re.compile(r"[^a-z0-9]+")
MARKDOWN = re.compile(r"([\\\[\]<>*_`])")


def artifact_key(name: str, what: str) -> str:
    """The same for every run of a spec, as Prefect takes it: small letters, digits, dashes.

    Args:
        name: the spec's.
        what: what the artifact is, such as `report`.
    """
    return f"{NOT_IN_KEYS.sub('-', name.lower()).strip('-')}-{what}"


def show_page(key: str, page: str) -> None:
    """Make an artifact of a Markdown page; nothing happens outside Prefect."""
    if not in_prefect():
        return
    from prefect.artifacts import create_markdown_artifact

    create_markdown_artifact(page, key=key)


def show_link(key: str, url: str, words: str, description: str = "") -> None:
    """Make an artifact of a link; nothing happens outside Prefect."""
    if not in_prefect():
        return
    from prefect.artifacts import create_link_artifact

    create_link_artifact(url, MARKDOWN.sub(r"\\\1", words), key=key, description=description)


@contextmanager
def not_vital(what: str) -> Iterator[None]:
    """For what only shows a run: where the server does not take it, the log says so.

    The job goes on meanwhile, whatever becomes of a picture of it.

    Args:
        what: is shown.
    """
    try:
        yield
    except Exception as error:
        logger.warning("%s cannot be shown in Prefect: %r", what, error)


def shown_beside(what: str, show: Callable[[], object]) -> threading.Thread:
    """Show something in a thread: who follows a job does not wait for Prefect's server.

    One that is away behind a proxy is asked for a minute, one that does not answer for six, and
    meanwhile nobody would see what becomes of the job, or say that it is followed.

    Args:
        what: is shown.
        show: shows it.
    """

    def try_to() -> None:
        with not_vital(what):
            show()

    context = copy_context()  # Prefect knows by it which task it is of
    thread = threading.Thread(target=context.run, args=(try_to,), daemon=True)
    thread.start()
    return thread


def in_prefect() -> bool:
    """Whether a flow or a task runs here."""
    # Where nobody has imported Prefect nothing of it runs, and importing it takes seconds.
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext

    return bool(FlowRunContext.get() or TaskRunContext.get())
