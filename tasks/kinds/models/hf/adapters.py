"""Adapters, as peft trains them: a few weights beside those of a model, which they change."""

import importlib.util
import json
from collections.abc import Collection
from pathlib import Path

from tasks.errors import InvalidSpec, shown
from tasks.kinds.models.hf.hub import FIELD

CONFIG = "adapter_config.json"
MERGE = (
    "merge the two with peft's merge_and_unload(), save with save_pretrained, and give that folder"
)


def transformers_applies_them() -> bool:
    """Whether transformers heeds an adapter beside a model; without peft it says nothing of it."""
    return importlib.util.find_spec("peft") is not None


def refuse_adapter(name: str, folder: Path, *, is_applied: bool) -> None:
    """See that a folder holds no adapter that would be left out without a word.

    Args:
        name: of the folder, as it was given.
        folder: to look into.
        is_applied: whether an adapter beside a model is heeded by who loads it.

    Raises:
        InvalidSpec: it holds one.
    """
    if not (folder / CONFIG).is_file():
        return
    if not (folder / "config.json").is_file():
        problem = f"contains an adapter of {base_of(folder / CONFIG)} but no model: {MERGE}"
        raise InvalidSpec.at(FIELD, name, problem)
    if not is_applied:
        problem = (
            f"contains an adapter ({CONFIG}) beside the model, which would be ignored: {MERGE}; "
            f"if the weights already include it, delete {CONFIG}"
        )
        raise InvalidSpec.at(FIELD, name, problem)


def refuse_adapter_on_hub(name: str, files: Collection[str], *, is_applied: bool) -> None:
    """See that a model on the Hub has no adapter that would be left out without a word.

    Args:
        name: of the model.
        files: that it has there.
        is_applied: whether an adapter beside a model is heeded by who loads it.

    Raises:
        InvalidSpec: it has one.
    """
    if CONFIG in files and not is_applied:
        problem = (
            f"has an adapter ({CONFIG}) beside the model on the Hugging Face Hub, which would be "
            f"ignored: {MERGE}; if the weights already include it, download the model without "
            f"{CONFIG} and give that folder"
        )
        raise InvalidSpec.at(FIELD, name, problem)


def base_of(file: Path) -> str:
    """The model that an adapter was trained for, as its file says."""
    try:
        return shown(json.loads(file.read_text())["base_model_name_or_path"])
    except (ValueError, LookupError, TypeError):
        return "some model"
