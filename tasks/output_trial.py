"""Tries an output's storage before rows are made that could not be published there."""

import uuid
from contextlib import suppress

from tasks.errors import InvalidSpec, Unreachable
from tasks.protocol.layout import OutputFolder
from tasks.protocol.storage import FsspecStorage

BOTH_WIN = (
    "lies on a store where two commits from one version both win, so that two runs could "
    "publish the same rows: use one that heeds conditional puts (If-None-Match), as S3 does"
)


def try_output(storage: FsspecStorage, output: OutputFolder) -> None:
    """See that the output can be written to, and that an S3 store takes one of two first writers.

    The ledger's commits rest on that. To commit twice would not show it: deltalake looks before
    it writes, and only those who look at the same moment meet.

    Raises:
        InvalidSpec: the store took both.
        Unreachable: it cannot be written to.
    """
    probe = f"{output.ledger}.probe-{uuid.uuid4().hex}"
    try:
        storage.write(probe, b"first")
        if (
            "s3" in storage.filesystem.protocol
        ):  # other stores' clients have conditions of their own
            storage.filesystem.pipe_file(probe, b"second", mode="create")
            raise InvalidSpec.at("sink.path", output.path, BOTH_WIN)
    except FileExistsError:
        pass
    except OSError as error:
        problem = "cannot be written to: make room, or see to it that this user may write there"
        raise Unreachable(f"sink.path: {output.path!r} {problem}: {error}") from error
    finally:
        delete_if_there(storage, probe)


def delete_if_there(storage: FsspecStorage, path: str) -> None:
    """Clear up; who cannot write cannot delete either."""
    with suppress(OSError):
        storage.delete(path)
