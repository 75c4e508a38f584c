"""Where in the user's own code an error was raised: the line that somebody has to mend."""

import os
import traceback
from functools import cache
from pathlib import Path

from tasks.kinds.imports_beside import INSTALLED, OURS
from tasks.kinds.models.machine_errors import chain

PYTHON = Path(os.__file__).parent
PROJECT = Path(__file__).parents[2]


def own_frame(error: BaseException) -> str | None:
    """The innermost frame of the user's own code, as in `helper.py:5 in inner`, if there is one.

    A file's name only: where the code lies differs from node to node, and the reason of two rows
    that fail alike does not.
    """
    for each in chain(error):
        for frame, line in reversed(list(traceback.walk_tb(each.__traceback__))):
            if is_own(frame.f_code.co_filename):
                return f"{Path(frame.f_code.co_filename).name}:{line} in {frame.f_code.co_name}"
    return None


@cache
def is_own(file: str) -> bool:
    """Whether a file is the user's: not installed, of Python, or of this project."""
    path = Path(file)
    # Code that was made on the way, or in C, has no whole path.
    if not path.is_absolute() or INSTALLED & {*path.parts}:
        return False
    return not any(path.is_relative_to(each) for each in (PYTHON, *(PROJECT / o for o in OURS)))
