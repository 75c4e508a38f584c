"""Whether a safetensors file is whole, from its header alone."""

import json
import os
from typing import IO

LENGTH_BYTES = 8
LFS_POINTER = b"version "
"""How the few lines begin that Git keeps in place of a large file."""


def refuse_pointer(file: IO[bytes]) -> None:
    """See that a file is not what Git keeps in its place; it is at its beginning then.

    Raises:
        ValueError: it is.
    """
    file.seek(0)
    if file.read(len(LFS_POINTER)) == LFS_POINTER:
        raise ValueError("is a Git LFS pointer, not the file: git lfs pull")
    file.seek(0)


def check_whole(file: IO[bytes]) -> None:
    """See that a file is safetensors and as long as its header says; no weight is read.

    Args:
        file: from its beginning.

    Raises:
        ValueError: says what is wrong, and the way out.
    """
    size = file.seek(0, os.SEEK_END)
    refuse_pointer(file)
    start = file.read(LENGTH_BYTES)
    begin = LENGTH_BYTES + int.from_bytes(start, "little")
    if len(start) < LENGTH_BYTES or begin > size:
        raise ValueError(
            f"is cut off, or not a safetensors file: it has {size} bytes; download it again"
        )
    end = begin + end_of_weights(file.read(begin - LENGTH_BYTES))
    if end != size:
        raise ValueError(f"is incomplete: it has {size} bytes of {end}; download it again")


def end_of_weights(header: bytes) -> int:
    """Bytes of all weights, as a header says.

    Raises:
        ValueError: it is no header.
    """
    try:
        parts = [each for name, each in json.loads(header).items() if name != "__metadata__"]
        return max((int(each["data_offsets"][1]) for each in parts), default=0)
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"has a broken header ({error}); download it again") from error
