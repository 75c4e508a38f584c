"""Which models see padding: what a row gets must not depend on how long the rows beside it are.

Padding stands after a text, unless the text is to be gone on from, and after a sound: nothing
changes its place for it, and models that read from left to right come to it too late.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.kinds.models.hf.text import TextInputs

READS_PADDING = (
    *("canine", "convbert", "fnet", "funnel", "mobilebert", "nystromformer", "reformer", "yoso"),
    *("aimv2", "cpmant"),
)
"""Types of models that take padding for a part of the text, whatever the mask says."""

NO_TOKEN = -1
"""A number that no text holds."""


HEARS_MASKED: tuple[str, ...] = ("wav2vec2", "wavlm", "hubert", "unispeech", "unispeech-sat")
"""Types of models of sounds that go by the mask, unless they normalise over all of a batch's time:
of others convolutions, one after another, carry padding into the sound."""


def hears_padding(config: Any) -> bool:
    """Whether a model is to be given sounds of the same length only."""
    if config.model_type == "wav2vec2-bert":
        return False
    by_frame = getattr(config, "feat_extract_norm", None) == "layer"
    by_batch = getattr(config, "conv_pos_batch_norm", False)
    return not by_frame or by_batch or config.model_type not in HEARS_MASKED


def reads_padding(model: Any) -> bool:
    """Whether a model is to be given texts of the same length only."""
    summary = getattr(model, "sequence_summary", None)
    of_the_end = summary is not None and summary.summary_type != "first"  # as XLNet's
    # Of an encoder-decoder only some say to the decoder what is padding.
    decodes = bool(getattr(model.config, "is_encoder_decoder", False))
    return of_the_end or decodes or model.config.model_type in READS_PADDING


def longest_padded(config: Any) -> float:
    """Tokens of the longest texts that may share a batch with texts of other lengths.

    With LongRoPE transformers turns the tokens of all of a batch's texts as it does those of the
    longest one: by other factors beyond the length that the model was first trained with. And the
    places from which on Llama 4 looks more sharply it counts from where padding begins.
    """
    return min(limits_of_padded(config.to_dict()), default=math.inf)


def limits_of_padded(settings: Any) -> Iterator[int]:
    """Those lengths; a part of a model may have its own, and so may layers of one type."""
    if isinstance(settings, dict):
        if settings.get("rope_type") == "longrope":
            yield settings["original_max_position_embeddings"]
        if settings.get("attn_temperature_tuning"):
            yield settings["floor_scale"] - 1
        for each in settings.values():
            yield from limits_of_padded(each)


def pad_as_configured(inputs: "TextInputs", model: Any) -> None:
    """Pad with what the model itself takes for padding, which may not be its tokenizer's.

    Models that read from left to right classify by a text's last token that is no such number.
    Where the configuration has none, it is the last token of all, even one that ends each text.
    """
    config = model.config.get_text_config()
    number = getattr(config, "pad_token_id", None)
    if number is not None and 0 <= number < getattr(config, "vocab_size", number + 1):
        inputs.padding = number
        return
    inputs.same_lengths = True  # for no token of the tokenizer's is sure to be missing in texts
    model.config.pad_token_id = config.pad_token_id = NO_TOKEN
