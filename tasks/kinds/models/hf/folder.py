"""What can be found wrong with a checkpoint from its files alone, and what identifies it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.adapters import refuse_adapter, transformers_applies_them
from tasks.kinds.models.hf.architectures import check_architecture
from tasks.kinds.models.hf.hub import FIELD
from tasks.kinds.models.hf.options import Task
from tasks.kinds.models.hf.processor_files import OWN_NAME, WEIGHTS, missing_parts
from tasks.kinds.models.safetensors_file import check_whole


def local_folder(name: str) -> Path | None:
    """The folder that a name stands for; None for a name on the Hub."""
    path = Path(name).expanduser()
    return path if name.startswith((".", "/", "~")) or path.exists() else None


def check_folder(name: str, folder: Path, task: Task) -> None:
    """See that a folder holds a model for the task.

    Raises:
        InvalidSpec: says what is missing or does not fit.
    """
    if not folder.is_dir():
        raise InvalidSpec.at(FIELD, name, "is not a folder; give one that save_pretrained wrote")
    refuse_adapter(name, folder, is_applied=transformers_applies_them())
    config = read_config(name, folder)
    check_architecture(name, config, task)
    refuse_broken_files(name, folder)
    missing = missing_weights(folder, config.get(OWN_NAME))
    if missing:
        raise InvalidSpec.at(FIELD, name, f"has no model weights: no {' and no '.join(missing)}")
    for part, wanted in missing_parts(folder, task).items():
        problem = (
            f"has no {part} ({' or '.join(wanted)}); save the {part} into the folder with its "
            "save_pretrained"
        )
        raise InvalidSpec.at(FIELD, name, problem)


def refuse_broken_files(name: str, folder: Path) -> None:
    """See that weights are whole, and that other files can be read.

    Raises:
        InvalidSpec: one is cut off, or stands for a file that was not fetched.
    """
    for ending, check in (("safetensors", check_whole), ("json", json.load)):
        for path in sorted(folder.glob(f"*.{ending}")):
            try:
                with path.open("rb") as file:
                    check(file)
            except ValueError as error:
                problem = f"has a broken {path.name}: {error}"
                raise InvalidSpec.at(FIELD, name, problem) from error


def read_config(name: str, folder: Path) -> dict[str, Any]:
    """The folder's config.json.

    Raises:
        InvalidSpec: there is none, or it cannot be read.
    """
    try:
        config = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        problem = "has no config.json; give a folder that save_pretrained wrote"
        if within := [each.parent.name for each in sorted(folder.glob("*/config.json"))]:
            problem += f", such as one of those within: {', '.join(within[:3])}"
        raise InvalidSpec.at(FIELD, name, problem) from None
    except ValueError as error:
        raise InvalidSpec.at(FIELD, name, f"has a broken config.json: {error}") from error
    if not isinstance(config, dict):
        raise InvalidSpec.at(FIELD, name, "has a config.json that is not a JSON object")
    return config


def missing_weights(folder: Path, own_name: str | None = None) -> list[str]:
    """Files of weights that should be there and are not; empty where all are.

    Args:
        folder: to look into.
        own_name: of the weights or their index, where config.json gives them another.
    """
    names = (own_name.removesuffix(".index.json"),) if own_name else WEIGHTS
    for whole in names:
        index = folder / f"{whole}.index.json"
        if (folder / whole).is_file():
            return []
        if index.is_file():
            parts = set(json.loads(index.read_text())["weight_map"].values())
            return sorted(part for part in parts if not (folder / part).is_file())
    return list(names)


def weights_bytes(folder: Path) -> int:
    """Bytes of a checkpoint's weights, in one file or in several."""
    for whole in WEIGHTS:
        stem, suffix = whole.rsplit(".", 1)
        parts = [*folder.glob(whole), *folder.glob(f"{stem}-*-of-*.{suffix}")]
        if parts:
            return sum(each.stat().st_size for each in parts)
    return 0


def digest(folder: Path) -> str:
    """Changes when a file of the folder does; hidden files do not count."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    content = hashlib.sha256()
    for name, path in sorted(files.items()):
        if path.is_file() and not any(part.startswith(".") for part in name.split("/")):
            with path.open("rb") as file:
                inner = hashlib.file_digest(file, "sha256").hexdigest()
            content.update(f"{name}\0{inner}\n".encode())
    return content.hexdigest()
