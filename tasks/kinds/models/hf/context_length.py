"""How many tokens of a text a model can read."""

from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf import sentence_files
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.options import (
    GENERATION,
    NEW_TOKENS,
    SEQ2SEQ,
    HuggingFaceOptions,
    Task,
)

NO_LIMIT = 10**6
"""Tokenizers that know no limit give a huge one."""
MOST_ADDED = 8
"""More tokens than any tokenizer adds to a text."""
POSITIONS, OF_GPT2 = "max_position_embeddings", "n_positions"
"""What config.json calls it how many tokens a model reads; T5's has the latter for no reason."""
POSITIONS_AFTER_PADDING = (
    *("roberta", "camembert", "mpnet", "data2vec-text", "longformer", "xmod", "luke", "ibert"),
    *("esm", "lilt", "layoutlmv3", "markuplm"),
)
"""Types of models that count from the padding token's number on, and so have fewer positions."""


def longest_text(
    checkpoint: Checkpoint, tokenizer: Any, task: Task, options: HuggingFaceOptions
) -> int:
    """Tokens after which a text is cut off.

    Raises:
        InvalidSpec: max_new_tokens leaves the model no room for the prompt.
    """
    config = checkpoint.config().get_text_config()
    positions = getattr(config, "max_position_embeddings", None) or NO_LIMIT
    positions = NO_LIMIT if positions < 0 else positions  # as XLNet says that it has none
    shifted = any(each in config.model_type for each in POSITIONS_AFTER_PADDING)
    own = sentence_files.most_tokens(checkpoint) if task == "feature-extraction" else None
    positions_of_texts = positions - (config.pad_token_id + 1 if shifted else 0)
    # As the library has it: what its files say stands in the place of the tokenizer's own limit.
    room = int(min(own or tokenizer.model_max_length, positions_of_texts, NO_LIMIT))
    if task in GENERATION:
        room = room_beside_output(room, positions, task, options)
    return min(room, options.max_length or room)


def check_new_tokens(checkpoint: Checkpoint, task: Task, options: HuggingFaceOptions) -> None:
    """See by config.json that there is room for what is to be written; nothing is loaded.

    Raises:
        InvalidSpec: there is none.
    """
    config = checkpoint.json_file("config.json") or {}
    config = config.get("text_config") or config
    positions = config.get(POSITIONS) or (task not in SEQ2SEQ and config.get(OF_GPT2))
    if options.max_new_tokens and isinstance(positions, int) and positions > 0:
        room_beside_output(positions, positions, task, options)


def refuse_no_room(
    tokenizer: Any, room: int, options: HuggingFaceOptions, *, pair: bool = False
) -> None:
    """See that of a text something is left once it is cut off.

    Args:
        tokenizer: which puts tokens of its own around a text.
        room: tokens after which it is cut off.
        options: that may say so.
        pair: whether it is two texts.

    Raises:
        InvalidSpec: nothing is, so that all texts would look alike; of less still, the tokenizer
            would cut off nothing.
    """
    added = tokenizer.num_special_tokens_to_add(pair=pair)
    if options.max_length is not None and room <= added:
        problem = (
            f"leaves no room for a text beside the {added} tokens that the tokenizer adds: set "
            f"at least {added + 1}"
        )
        raise InvalidSpec.at("model.options.max_length", options.max_length, problem)


def room_beside_output(room: int, positions: int, task: Task, options: HuggingFaceOptions) -> int:
    """Tokens of a prompt: what a causal model writes takes from them, a decoder has its own.

    Raises:
        InvalidSpec: max_new_tokens is more than the model can write.
    """
    field, decodes = "model.options.max_new_tokens", task in SEQ2SEQ
    new_tokens = options.max_new_tokens or (0 if decodes else NEW_TOKENS)
    if decodes and new_tokens >= positions:
        problem = f"is more than the model can write: {positions - 1}; reduce it"
        raise InvalidSpec.at(field, new_tokens, problem)
    if not decodes and room <= new_tokens:
        problem = (
            f"leaves no room for the prompt: the model reads {room} tokens in total; reduce it"
        )
        raise InvalidSpec.at(field, new_tokens, problem)
    return room if decodes else room - new_tokens
