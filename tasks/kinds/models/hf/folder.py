"""What can be found wrong with a checkpoint from its files alone, and what identifies it."""

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.hub import FIELD
from tasks.kinds.models.hf.options import IMAGE, SEQ2SEQ, SPEECH, TEXT, Task
from tasks.kinds.models.safetensors_file import check_whole

ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "image-classification": ("ForImageClassification",),
    "text-classification": ("ForSequenceClassification",),
    "object-detection": ("ForObjectDetection",),
    "text-generation": ("ForCausalLM", "LMHeadModel"),
    "automatic-speech-recognition": ("WhisperForConditionalGeneration",),
    **dict.fromkeys(SEQ2SEQ, ("ForConditionalGeneration", "MarianMTModel", "EncoderDecoderModel")),
}
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
)


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
        raise InvalidSpec.at(FIELD, name, "is no folder; give one that save_pretrained wrote")
    check_architecture(name, read_config(name, folder), task)
    refuse_broken_files(name, folder)
    missing = missing_weights(folder)
    if missing:
        raise InvalidSpec.at(
            FIELD, name, f"lacks the model's weights: no {' and no '.join(missing)}"
        )
    for part, wanted in parts_of(task).items():
        if any((folder / each).is_file() for each in wanted):
            continue
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


def parts_of(task: Task) -> dict[str, tuple[str, ...]]:
    """What a model needs besides its weights, and the files of which one has it."""
    if task in IMAGE:
        return {"image processor": PROCESSOR_FILES}
    if task in SPEECH:
        return {"feature extractor": PROCESSOR_FILES, "tokenizer": TOKENIZER_FILES}
    return {"tokenizer": TOKENIZER_FILES}


def read_config(name: str, folder: Path) -> dict[str, Any]:
    """The folder's config.json.

    Raises:
        InvalidSpec: there is none, or it cannot be read.
    """
    try:
        config = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        problem = "has no config.json; give a folder that save_pretrained wrote"
        raise InvalidSpec.at(FIELD, name, problem) from None
    except ValueError as error:
        raise InvalidSpec.at(FIELD, name, f"has a broken config.json: {error}") from error
    if not isinstance(config, dict):
        raise InvalidSpec.at(FIELD, name, "has a config.json that is no JSON object")
    return config


def check_architecture(name: str, config: dict[str, Any], task: Task) -> None:
    """See that a model was made for the task.

    Raises:
        InvalidSpec: it was made for another, or needs code of its own.
    """
    have = [str(each) for each in config.get("architectures") or []]
    encoder_decoder = bool(config.get("is_encoder_decoder"))
    if encoder_decoder and task in TEXT and task not in SEQ2SEQ:
        problem = f"is an encoder-decoder ({', '.join(have)}): model.task is one of {SEQ2SEQ} then"
        raise InvalidSpec.at(FIELD, name, problem)
    if config.get("auto_map") and not config.get("model_type"):
        problem = "needs Python code of its own, which is never run; give a model without"
        raise InvalidSpec.at(FIELD, name, problem)
    if task in SEQ2SEQ and not encoder_decoder:
        problem = f"is no encoder-decoder ({', '.join(have)}), which {task} wants"
        raise InvalidSpec.at(FIELD, name, problem)
    if needs_timm(config) and importlib.util.find_spec("timm") is None:
        problem = (
            "has a backbone of the package timm: pip install timm, here and on every node, or "
            "give a model without, as facebook/detr-resnet-50 is at revision no_timm"
        )
        raise InvalidSpec.at(FIELD, name, problem)
    wanted = ARCHITECTURES.get(task, ())
    if have and wanted and not any(part in each for each in have for part in wanted):
        problem = f"holds {', '.join(have)}; {task} wants a model whose name has {wanted[0]}"
        raise InvalidSpec.at(FIELD, name, problem)


def needs_timm(config: dict[str, Any]) -> bool:
    """Whether a part of the model is made by timm."""
    backbone = config.get("backbone_config") or {}
    return bool(config.get("use_timm_backbone")) or backbone.get("model_type") == "timm_backbone"


def missing_weights(folder: Path) -> list[str]:
    """Files of weights that should be there and are not; empty where all are."""
    for whole in WEIGHTS:
        index = folder / f"{whole}.index.json"
        if (folder / whole).is_file():
            return []
        if index.is_file():
            parts = set(json.loads(index.read_text())["weight_map"].values())
            return sorted(part for part in parts if not (folder / part).is_file())
    return list(WEIGHTS)


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
