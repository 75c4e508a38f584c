"""Folders as `Dataset.save_to_disk` and `DatasetDict.save_to_disk` write them: what is in them."""

import json
from typing import Any

from tasks.errors import InvalidSpec
from tasks.protocol.storage import FsspecStorage

STATE = "state.json"
SPLITS = "dataset_dict.json"


def data_files(storage: FsspecStorage, folder: str) -> list[str]:
    """Paths of a dataset's own files; `map` leaves others beside them, as a cache.

    Raises:
        InvalidSpec: it is no dataset's folder, or lacks one of the files.
    """
    state = json_file(storage, f"{folder}/{STATE}")
    if state is None:
        problem = f"holds Arrow files and no {STATE}: give a folder that save_to_disk wrote"
        raise InvalidSpec.at("source.path", folder, problem)
    return [f"{folder}/{each['filename']}" for each in state["_data_files"]]


def splits(storage: FsspecStorage, folder: str) -> list[str] | None:
    """Names of the splits that lie side by side in a folder; None where it is no DatasetDict's."""
    found = json_file(storage, f"{folder}/{SPLITS}")
    return None if found is None else list(found["splits"])


def json_file(storage: FsspecStorage, path: str) -> Any:
    """What a small file holds; None where there is none.

    Raises:
        InvalidSpec: it is no JSON.
    """
    try:
        return json.loads(storage.read(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InvalidSpec.at("source.path", path, f"is not JSON: {error}") from error
