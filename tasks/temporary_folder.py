"""Where a user's processes keep what others on the machine must not be able to put in its place."""

import os
import tempfile
from pathlib import Path
from stat import S_ISLNK

from tasks.errors import InvalidSpec


def own_folder() -> Path:
    """For code, logs and models that were fetched: a folder to which nobody else writes.

    Raises:
        InvalidSpec: somebody else made it, who could put code of his own there; or nobody can.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"prefect-ray-data-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        problem = f"there is no folder for temporary files ({error}): set TMPDIR to one"
        raise InvalidSpec(f"TMPDIR: {problem}") from error
    if found.st_uid != os.getuid() or S_ISLNK(found.st_mode) or found.st_mode & 0o022:
        problem = "is not a folder that only you own; remove it, or set TMPDIR to another place"
        raise InvalidSpec.at("TMPDIR", str(folder), problem)
    return folder
