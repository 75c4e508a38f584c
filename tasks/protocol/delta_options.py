"""Where tables lie, and by which keys, in the words of deltalake and others that take its own."""

import re
from typing import Any
from urllib.parse import quote

from tasks.errors import InvalidSpec
from tasks.protocol.aws_options import aws_options
from tasks.protocol.azure_options import azure_options
from tasks.protocol.google_options import google_options
from tasks.protocol.storage import open_storage

ESCAPE = "%[0-9A-Fa-f]{2}"
NO_PATH = r"[\x00-\x1f\x7f\\^|\[\]]"
"""Characters of a local path at which deltalake breaks."""
NO_KEY = r"[\x00-\x1f\x7f\x85\u2028]"
"""Such of a store's: it refuses control characters, and reads what XML takes for an end of line as
one."""
AZURES_OTHERS = re.compile("^abfss?://")
OTHERS = {
    "abfs": azure_options,
    "abfss": azure_options,
    "az": azure_options,
    "gs": google_options,
}
"""Stores besides S3, by the scheme of their URLs."""
OF_STORES = {"delta.checkpointInterval": "10"}
"""Properties of a log in an object store. Each look asks for each entry since the last checkpoint
twice, and a run looks at the ledger ten times, and as often at a table that it publishes into: by
deltalake's own interval, a hundred, that is up to two thousand requests each. A disk, which may
lose a checkpoint to a power cut, has no use for more of them."""


def delta_options(url: str, storage_options: dict[str, Any]) -> dict[str, str]:
    """Fsspec's options as deltalake takes them.

    Args:
        url: of the table.
        storage_options: as fsspec takes them.

    Raises:
        InvalidSpec: one that it has no word for says whose credentials are to be taken, or who
            vouches for the store.
    """
    if of_store := OTHERS.get(url.partition("://")[0]):
        return of_store(open_storage(url, storage_options)[0].filesystem)
    return aws_options(storage_options)


def delta_url(url: str) -> str:
    """Where deltalake writes a table, as it takes it.

    Raises:
        InvalidSpec: the path has an escape in it, which deltalake resolves here and not there, or
            what it takes for no part of a path, at the end of a run and not when it looks there.
    """
    wrong = re.search(f"{ESCAPE}|{NO_KEY if '://' in url else NO_PATH}", url)
    if wrong:
        problem = f"has {wrong[0]!r} in it, which the ledger does not support"
        raise InvalidSpec.at("sink.path", url, f"{problem}: rename the folder")
    return quoted(url)


def lance_url(url: str) -> str:
    """The same as Lance takes it, which knows Azure's store by one scheme."""
    return AZURES_OTHERS.sub("az://", quoted(url))


def quoted(url: str) -> str:
    """A path or an fsspec URL as deltalake takes it.

    Unquoted, they would cut a URL at `#` or `?`, and read and write the table of that name.
    """
    scheme, separator, path = url.rpartition("://")
    return f"{scheme}://{quote(path, safe='/=+:@,')}" if separator else url
