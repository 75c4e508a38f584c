"""Tokens that a model has a vector for: its tokenizer may know more, such as some added later."""

from typing import Any

import numpy as np
import numpy.typing as npt


def tokens_known(model: Any) -> int | None:
    """How many tokens a model knows, the first so many; None where it has no list of them.

    Some models make the vectors of tokens without one. Of a model of images as well, what it gives
    as its list may be another: no fewer are known than its configuration says.
    """
    import torch

    try:
        vectors = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):  # of parts that it has none of
        return None
    if not isinstance(vectors, torch.nn.Embedding):
        return None
    named = getattr(model.config.get_text_config(), "vocab_size", None) or 0
    return max(vectors.num_embeddings, named)


def padding_token(tokenizer: Any, known: int | None = None) -> int:
    """The number to pad with; models never look at it, and yet they look up its vector.

    Args:
        tokenizer: may have been given a token for it that the model has not.
        known: how many tokens the model knows, where that is known.
    """
    for token in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token is not None and (known is None or token < known):
            return int(token)
    return 0


def refuse_unknown(tokens: npt.NDArray[np.integer[Any]], known: int | None, tokenizer: Any) -> None:
    """See that a model has a vector for each token; a GPU asked for another takes no call any more.

    Args:
        tokens: numbers of those of all texts.
        known: how many the model knows; None: nobody can tell.
        tokenizer: which has made them.

    Raises:
        ValueError: it has none for one.
    """
    highest = int(tokens.max(initial=-1))
    if known is not None and highest >= known:
        token = tokenizer.convert_ids_to_tokens(highest)
        raise ValueError(
            f"a text holds the token {token!r}, number {highest} of its tokenizer, but the model "
            f"knows {known:,}: the tokenizer is from another model, or has added tokens that the "
            "model lacks (resize_token_embeddings)"
        )
