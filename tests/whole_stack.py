"""A whole stack of the product's own making, for all tests that look at one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from deployments.stack.processes import mark_of
from deployments.stack.stack import Stack, running_stack

AUTH = "operator:a password of theirs"


@contextmanager
def as_operator() -> Iterator[None]:
    """With the stack's password in the environment, where no other test must find it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PREFECT_SERVER_API_AUTH_STRING", AUTH)
        environment.setenv("PREFECT_API_AUTH_STRING", AUTH)
        yield


def guarded_stack(folder: Path) -> Iterator[Stack]:
    """A stack on free ports, whose server asks who one is; it leaves no process behind."""
    running = running_stack(folder)
    with as_operator():
        started = running.__enter__()
    family: list[psutil.Process] = []
    try:
        yield started
        family = family_of(started)
        assert len(family) > len(started.children)
    finally:
        with as_operator():
            running.__exit__(None, None, None)
    assert not [process for process in family if process.is_running()]
    marked = [each for each in psutil.process_iter() if mark_of(each) == started.state.mark]
    assert not marked


def family_of(stack: Stack) -> list[psutil.Process]:
    """The stack's services and all that they have started."""
    services = [psutil.Process(holder.pid) for holder in stack.state.processes.values()]
    children = [child for each in services for child in each.children(recursive=True)]
    return [*services, *children]
