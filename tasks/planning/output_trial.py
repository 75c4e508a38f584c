"""Tries an output's storage before rows are made that could not be published there."""

import errno
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.first_line import first_line
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.layout import OutputFolder
from tasks.protocol.storage import FsspecStorage

BOTH_WIN = (
    "is on a store that accepts two commits from the same version, so two runs could publish the "
    "same rows: use one that respects conditional puts (If-None-Match), such as S3"
)
NO_CONDITIONS = (
    "is on a store without conditional puts (If-None-Match), which keep two runs from publishing "
    "the same rows: use one that supports them, such as S3"
)
NOTHING_STAYS = (
    "is where deltalake, which keeps the ledger, cannot find what it has just written: use a "
    "folder on a disk, or in an object store such as S3"
)


def try_output(storage: FsspecStorage, output: OutputFolder, ledger: DeltaLedger) -> None:
    """See that the output takes what a run does to it, and an S3 store one of two first writers.

    The ledger's commits rest on that. To commit twice would not show it: deltalake looks before
    it writes, and only those who look at the same moment meet.

    Raises:
        InvalidSpec: the store took both, or is none for a ledger.
        Unreachable: it cannot be written to, or nothing can be deleted there.
    """
    name = f"probe-{uuid.uuid4().hex}"
    probe, among_rows = f"{output.ledger}.{name}", f"{output.path}/.{name}"
    try:
        with trying(output, f"put files into {output.state}"):
            storage.write(probe, b"first")
            refuse_both_win(storage, output, probe)
        try_ledger(storage, output, ledger, f".{name}-table")
        if storage.is_local:  # whose folders have been looked at
            return
        with trying(output, f"put files into {output.path}"):
            storage.write(among_rows, b"")
        with trying(output, f"delete files in {output.path} and in {output.state}"):
            for path in (among_rows, probe):
                storage.delete(path)
    finally:
        delete_if_there(storage, probe)


def refuse_both_win(storage: FsspecStorage, output: OutputFolder, probe: str) -> None:
    """See that nothing is put where something lies, if that is asked for.

    Raises:
        InvalidSpec: it is, or the store takes no such request.
    """
    if "s3" not in storage.filesystem.protocol:
        return  # other stores' clients have conditions of their own
    try:
        storage.filesystem.pipe_file(probe, b"second", mode="create")
    except FileExistsError:
        return
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        raise InvalidSpec.at("sink.path", output.path, NO_CONDITIONS) from error
    raise InvalidSpec.at("sink.path", output.path, BOTH_WIN)


def try_ledger(
    storage: FsspecStorage, output: OutputFolder, ledger: DeltaLedger, ending: str
) -> None:
    """See that a ledger can be made: deltalake has a client of its own, and needs more of a disk.

    Raises:
        InvalidSpec: it is not there afterwards.
        Unreachable: it may not be made.
    """
    trial = ledger.beside(ending)
    try:
        with trying(output, f"create a table (the ledger) in {output.state}"):
            try:
                trial.make()
            except CommitFailedError:
                if not trial.look().id:  # else it is ours, and the reply was lost
                    raise
    except TableNotFoundError as error:
        raise InvalidSpec.at("sink.path", output.path, NOTHING_STAYS) from error
    finally:
        with suppress(OSError):
            storage.delete_folder(f"{output.ledger}{ending}")


@contextmanager
def trying(output: OutputFolder, what: str) -> Iterator[None]:
    """A block that does to an output what every run does.

    Raises:
        Unreachable: this user may not; says what.
    """
    try:
        yield
    except TableNotFoundError:
        raise
    except (OSError, DeltaError) as error:
        problem = f"cannot be written to: free some space, or allow this user to {what}"
        raise Unreachable(f"sink.path: {output.path!r} {problem}: {first_line(error)}") from error


def delete_if_there(storage: FsspecStorage, path: str) -> None:
    """Clear up; who cannot write cannot delete either."""
    with suppress(OSError):
        storage.delete(path)
