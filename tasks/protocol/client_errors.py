"""What a store's client raises in its own words, as errors that everybody knows."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

COLOR = re.compile(r"\x1b\[[0-9;]*m")
CAUSE = re.compile(r"\s*\n\s*↳\s*")
"""Before each cause that deltalake names, one a line."""
NUMBER = re.compile(r"\(os error (\d+)\)")


def plain(error: BaseException) -> str:
    """What an error says, with deltalake's causes on its line and in no colours."""
    return CAUSE.sub(": ", COLOR.sub("", str(error))).rstrip()


def number_of(error: BaseException) -> int | None:
    """The system's number for what went wrong, which deltalake has in its words alone."""
    found = NUMBER.search(str(error))
    if found is None:
        return error.errno if isinstance(error, OSError) else None
    return int(found[1])


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
