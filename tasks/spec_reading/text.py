"""Reads the text of a spec's file, or says why that cannot be done, and the way out."""

import os
from contextlib import suppress
from pathlib import Path

from tasks.kinds.likest import did_you_mean
from tasks.own_process import GONE

ENDINGS = (".yaml", ".yml", ".json")


def text_of(file: Path) -> str:
    """What a file says.

    Raises:
        ValueError: it cannot be read; says why, and what to do.
    """
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ValueError(f"cannot be read: {why_missing(file)}") from error
    except IsADirectoryError as error:
        found = names_in(file)
        told = f", such as {file / found[0]}" if found else ""
        raise ValueError(f"cannot be read: it is a folder; name a YAML file{told}") from error
    except PermissionError as error:
        way_out = "give this user access, or run as a user who has it"
        raise ValueError(f"cannot be read by this user: {way_out}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = f"cannot be read: line {line} is not UTF-8; save the file as UTF-8"
        raise ValueError(problem) from error
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be read: {error}") from error


def why_missing(file: Path) -> str:
    """What is not there of the way to a file, and which name there may be meant."""
    folder = file.parent
    if not folder.is_dir():
        return f"there is no folder {str(folder)!r}; correct the path"
    try:
        where = os.path.realpath(folder)
    except FileNotFoundError:
        return GONE
    meant = did_you_mean(file.name, names_in(folder))
    return f"{where} has no such file{meant or '; correct the path'}"


def names_in(folder: Path) -> list[str]:
    """Files of a folder that may be specs."""
    with suppress(OSError):
        return sorted(each for each in os.listdir(folder) if each.endswith(ENDINGS))
    return []
