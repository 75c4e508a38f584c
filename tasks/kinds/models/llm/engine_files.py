"""What vLLM's engine needs of a model's files, found before it starts where that can be."""

from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf import folder, hub
from tasks.kinds.models.hf.adapters import refuse_adapter, refuse_adapter_on_hub
from tasks.kinds.models.hf.hub import FIELD
from tasks.kinds.models.hf.processor_files import WEIGHTS, knows_words, missing_parts

USUAL_FORMATS = ("auto", "hf", "safetensors", "pt")
"""Of `load_format`: those that read the weights from files as transformers writes them."""
USUAL_TOKENIZERS = ("auto", "hf", "slow")
"""The same of `tokenizer_mode`."""
OTHER_WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
"""Whatever their names: without an index, vLLM reads all that there are."""
OF_MISTRAL = ("consolidated*.safetensors", "tekken.json", "tokenizer.model.v*")
"""Weights and words as Mistral publishes them, beside those for transformers or without."""


def check_files(name: str, found: Path, arguments: Mapping[str, Any]) -> None:
    """See that a folder holds a model whose weights and words vLLM finds.

    Args:
        name: of the folder, as it was given.
        found: the folder.
        arguments: of the engine, that may name other places and formats.

    Raises:
        InvalidSpec: says what is missing or broken.
    """
    refuse_adapter(name, found, is_applied=False)
    folder.read_config(name, found)
    folder.refuse_broken_files(name, found)
    if arguments.get("load_format", "auto") in USUAL_FORMATS and (lacks := missing_weights(found)):
        problem = f"has no model weights: no {' and no '.join(lacks)}"
        raise InvalidSpec.at(FIELD, name, problem)
    for part, wanted in missing_parts(found, "text-generation").items():
        if brings_words(arguments) and not has_any(found, OF_MISTRAL):
            problem = (
                f"has no {part} ({' or '.join(wanted)}); save the {part} into the folder with its "
                "save_pretrained, or set one in model.engine_kwargs.tokenizer"
            )
            raise InvalidSpec.at(FIELD, name, problem)


def check_on_hub(name: str, revision: str, arguments: Mapping[str, Any]) -> None:
    """See that a model on the Hub has weights that vLLM reads; its words are left to the engine.

    Raises:
        InvalidSpec: it has none; or has an adapter, which would be left out.
    """
    names = hub.listed(name, revision)
    refuse_adapter_on_hub(name, names or (), is_applied=False)
    if not names or arguments.get("load_format", "auto") not in USUAL_FORMATS:
        return
    if not any(fnmatch(each, pattern) for each in names for pattern in OTHER_WEIGHTS):
        problem = (
            f"has no weights on the Hugging Face Hub ({' or '.join(OTHER_WEIGHTS)}): use a model "
            "that has them, or set their format in model.engine_kwargs.load_format"
        )
        raise InvalidSpec.at(FIELD, name, problem)


def missing_weights(found: Path) -> list[str]:
    """Files of weights that should be there and are not; empty where all are."""
    missing = folder.missing_weights(found)
    others = OTHER_WEIGHTS if missing == [*WEIGHTS] else OF_MISTRAL
    return [] if has_any(found, others) else missing


def has_any(found: Path, patterns: tuple[str, ...]) -> bool:
    """Whether a folder has a file of one of these names."""
    return any(True for each in patterns for _ in found.glob(each))


def brings_words(arguments: Mapping[str, Any]) -> bool:
    """Whether the engine reads texts with the model's own tokenizer, of transformers."""
    is_usual = arguments.get("tokenizer_mode", "auto") in USUAL_TOKENIZERS
    return is_usual and not (arguments.get("tokenizer") or arguments.get("skip_tokenizer_init"))


def refuse_wordless(llm: Any, name: str, arguments: Mapping[str, Any]) -> None:
    """See that an engine's tokenizer knows words, which transformers may have made up of none.

    Raises:
        InvalidSpec: to it all texts look alike.
    """
    from transformers import PreTrainedTokenizerBase

    if not brings_words(arguments):
        return
    tokenizer = llm.get_tokenizer()
    if isinstance(tokenizer, PreTrainedTokenizerBase) and not knows_words(tokenizer):
        problem = (
            f"has no vocabulary file for its {type(tokenizer).__name__}: save the model's "
            "tokenizer beside it, or set one in model.engine_kwargs.tokenizer"
        )
        raise InvalidSpec.at(FIELD, name, problem)
