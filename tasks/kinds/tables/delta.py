"""Opens Delta tables."""

import re
from typing import Any

from tasks.errors import InvalidSpec
from tasks.protocol.client_errors import plain
from tasks.protocol.delta_options import delta_options, quoted

STORE_SAID = re.compile(r"Generic [A-Z]\w+ error|The operation lacked")
"""What the store itself says, within the words of who reads the log."""
UNREADABLE = re.compile(r"Unsupported: |Json error: ")
"""What the log holds, which asking again does not change."""


def open_delta(url: str, storage_options: dict[str, Any], version: int | None = None) -> Any:
    """A Delta table, at its newest version or another.

    Args:
        url: local path or object store's URL.
        storage_options: as fsspec takes them.
        version: to be opened.

    Raises:
        FileNotFoundError: there is no table.
        LookupError: it has no such version, or not any more.
        ConnectionError: the storage does not answer.
        InvalidSpec: its log is broken, or asks for what nobody here can read.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        options = delta_options(url, storage_options)
        return DeltaTable(quoted(url), version=version, storage_options=options)
    except TableNotFoundError as error:
        if version is None:
            raise FileNotFoundError(url) from error
        open_delta(url, storage_options)  # else the table is there, and the version was cleaned up
        raise LookupError(str(error)) from error
    except DeltaError as error:
        if UNREADABLE.search(str(error)):
            raise InvalidSpec(
                f"the Delta table at {url} cannot be read here: {plain(error)}; undo that change, "
                "or use another table"
            ) from error
        if version is None or STORE_SAID.search(str(error)):
            raise ConnectionError(plain(error)) from error
        raise LookupError(str(error)) from error
    except OSError as error:
        raise ConnectionError(plain(error)) from error
