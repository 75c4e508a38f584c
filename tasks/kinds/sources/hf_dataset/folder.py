"""Folders as `Dataset.save_to_disk` and `DatasetDict.save_to_disk` write them: what is in them."""

import json
from typing import Any

from tasks.errors import InvalidSpec
from tasks.protocol.storage import FsspecStorage

STATE = "state.json"
SPLITS = "dataset_dict.json"
NOT_SAVED = "save_to_disk did not write it; save the dataset again"


def data_files(storage: FsspecStorage, folder: str) -> list[str]:
    """Paths of a dataset's own files; `map` leaves others beside them, as a cache.

    Raises:
        InvalidSpec: it is no dataset's folder.
    """
    state = json_file(storage, f"{folder}/{STATE}")
    if state is None:
        problem = f"has Arrow files but no {STATE}: give a folder that save_to_disk wrote"
        raise InvalidSpec.at("source.path", folder, problem)
    match state:
        case {"_data_files": [*files]} if all(map(has_name, files)):
            return [f"{folder}/{each['filename']}" for each in files]
    raise InvalidSpec.at("source.path", f"{folder}/{STATE}", f"lists no files: {NOT_SAVED}")


def is_empty(storage: FsspecStorage, folder: str) -> bool:
    """Whether a folder is that of a dataset without a row.

    Raises:
        InvalidSpec: its list of files cannot be read.
    """
    return json_file(storage, f"{folder}/{STATE}") is not None and not data_files(storage, folder)


def has_name(file: Any) -> bool:
    """Whether an entry of a state names a file."""
    return isinstance(file, dict) and isinstance(file.get("filename"), str)


def splits(storage: FsspecStorage, folder: str) -> list[str] | None:
    """Names of the splits that lie side by side in a folder; None where it is no DatasetDict's.

    Raises:
        InvalidSpec: its list of them cannot be read.
    """
    match json_file(storage, f"{folder}/{SPLITS}"):
        case None:
            return None
        case {"splits": [*names]}:
            return names
    raise InvalidSpec.at("source.path", f"{folder}/{SPLITS}", f"lists no splits: {NOT_SAVED}")


def json_file(storage: FsspecStorage, path: str) -> Any:
    """What a small file holds; None where there is none.

    Raises:
        InvalidSpec: it is no JSON.
    """
    try:
        return json.loads(storage.read(path))
    except (FileNotFoundError, NotADirectoryError):  # of a path below a file
        return None
    except ValueError as error:
        raise InvalidSpec.at("source.path", path, f"is not JSON: {error}") from error
