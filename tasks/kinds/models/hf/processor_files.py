"""What a folder must hold besides a model and its weights: an image processor, a tokenizer, ..."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.kinds.models.hf.adapters import CONFIG as ADAPTER
from tasks.kinds.models.hf.options import BY_WORDS, IMAGE, OF_SOUNDS, SPEECH, Task

PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "spm.model",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "vocab-src.json",
    "prophetnet.tokenizer",
)
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
WEIGHTS_FILES: tuple[str, ...] = (*WEIGHTS, *(f"{each}.index.json" for each in WEIGHTS))
OWN_NAME = "transformers_weights"
"""In config.json: the file of weights, or their index, where it has another name."""
TOKENIZER_SETTINGS = "tokenizer_config.json"
OF_BYTES = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")
"""Tokenizers that know no words, and so have no file of them."""
WORDS_OF_NO_FILE = 1
"""Beside special tokens: some tokenizers begin with one, such as a space or a full stop."""


def missing_parts(folder: Path, task: Task) -> dict[str, tuple[str, ...]]:
    """What a folder lacks of what a model for a task needs, and the files of which one has it."""
    return {
        part: files
        for part, files in parts_of(task).items()
        if not any((folder / each).is_file() for each in files)
        and not (files == TOKENIZER_FILES and reads_bytes(folder))
        and not (files == PROCESSOR_FILES and is_of_timm(folder))
    }


def missing_on_hub(
    names: frozenset[str], task: Task, config: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """What a model on the Hub lacks, weights too, and the files of which one would have it.

    Tokenizers are left to who loads them: old models keep their words in files of many names.

    Args:
        names: of its files.
        task: that it is for.
        config: what its config.json holds.
    """
    weights = (str(config[OWN_NAME]),) if config.get(OWN_NAME) else WEIGHTS_FILES
    wanted = {} if ADAPTER in names else {"weights": weights}  # it may name a model elsewhere
    if "pretrained_cfg" not in config:  # which is timm's
        parts = parts_of(task).items()
        wanted |= {part: files for part, files in parts if files == PROCESSOR_FILES}
    return {part: files for part, files in wanted.items() if not names.intersection(files)}


def parts_of(task: Task) -> dict[str, tuple[str, ...]]:
    """What a model needs besides its weights, and the files of which one has it."""
    if task in BY_WORDS:
        return {"image processor": PROCESSOR_FILES, "tokenizer": TOKENIZER_FILES}
    if task in IMAGE:
        return {"image processor": PROCESSOR_FILES}
    if task in OF_SOUNDS:
        return {"feature extractor": PROCESSOR_FILES}
    if task in SPEECH:
        return {"feature extractor": PROCESSOR_FILES, "tokenizer": TOKENIZER_FILES}
    return {"tokenizer": TOKENIZER_FILES}


def reads_bytes(folder: Path) -> bool:
    """Whether a folder's tokenizer is one of bytes or characters."""
    file = folder / TOKENIZER_SETTINGS
    return file.is_file() and json.loads(file.read_text()).get("tokenizer_class") in OF_BYTES


def is_of_timm(folder: Path) -> bool:
    """Whether a model is timm's, whose config.json says what is done to images."""
    return "pretrained_cfg" in json.loads((folder / "config.json").read_text())


def knows_words(tokenizer: Any) -> bool:
    """Whether a tokenizer has a vocabulary, or needs none.

    Where a checkpoint has no file of one that suits the model's type, transformers makes one of a
    few special tokens, and says nothing: each word is the unknown one, or none at all.
    """
    if not tokenizer.is_fast:  # others read bytes, or cannot be made without their file
        return True
    special = {str(each) for each in tokenizer.added_tokens_decoder.values() if each.special}
    special |= {*tokenizer.all_special_tokens}
    return len(tokenizer) - len(special) > WORDS_OF_NO_FILE
