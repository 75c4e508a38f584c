"""What a store's client raises in its own words, as errors that everybody knows."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_oserror() -> Iterator[None]:
    """What a store's client raises in its own words, as the ConnectionError that it is."""
    try:
        yield
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        raise
    except Exception as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from error


@contextmanager
def refusal_of(path: str) -> Iterator[None]:
    """Reading an object; where it is refused, the error names it, as a disk's does.

    Raises:
        PermissionError: it is.
    """
    try:
        yield
    except PermissionError as error:
        if error.filename is not None:
            raise
        raise PermissionError(errno.EACCES, str(error), path) from error
