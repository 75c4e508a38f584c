"""How a model writes by its own settings, and which rows it can write for at once."""

from copy import copy
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import quiet
from tasks.kinds.models.hf.languages import language_token
from tasks.kinds.models.hf.options import NEW_TOKENS, HuggingFaceOptions

LOOKS_AT_ENCODER = {"encoder_repetition_penalty": 1.0, "encoder_no_repeat_ngram_size": 0}
LOOKS_AT_PROMPT = {
    **LOOKS_AT_ENCODER,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_length": 0,
    "forced_bos_token_id": None,
}
"""Settings of a model that make transformers look at what it reads, padding included, and the
values at which they do nothing. A first token is forced after a prompt of one token alone."""
OTHER_WAYS = ("penalty_alpha", "num_beam_groups", "dola_layers", "force_words_ids", "constraints")
"""Settings of a model by which it writes neither greedily nor with beams."""
ONE_TEXT = {"num_return_sequences": 1, "return_dict_in_generate": False}
"""A model's own settings may ask for several of each row, or for more than texts."""
UNCOMPILED = {"disable_compile": True}
"""Of a cache of fixed size, for which a model's own settings may ask, transformers takes leave to
compile a model on a GPU: anew for each shape of batches, and with numbers that nobody compares."""
COUNTS_PADDING = (
    *("recurrent_gemma", "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian"),
    *("mbart", "mvp", "pegasus", "plbart", "trocr", "whisper"),
    *("cpmant", "flaubert", "minimax", "xlm", "xlnet", "xlstm"),
)
"""Types of models that go on from a prompt as if the padding before it were a part of it."""
MIXES_ROWS = ("rwkv",)
"""Types of models to which transformers gives the state of a batch's other rows."""


def settings(model: Any, tokenizer: Any, options: HuggingFaceOptions) -> dict[str, Any]:
    """Arguments of `generate` that are the same for all batches."""
    config = model.generation_config
    own, config.max_length = config.max_length, None  # else each call warns of two limits
    found: dict[str, Any] = {"max_new_tokens": options.max_new_tokens or NEW_TOKENS}
    found |= ONE_TEXT | UNCOMPILED
    found["tokenizer"] = tokenizer  # for texts at which the model's own settings end
    if model.config.is_encoder_decoder and options.max_new_tokens is None:
        longest = getattr(model.config, "max_position_embeddings", None) or NEW_TOKENS + 1
        own = own or min(longest, NEW_TOKENS + 1)
        found["max_new_tokens"] = config.max_new_tokens or own - 1  # one starts the decoder
    if options.num_beams or options.do_sample:
        found["num_beams"] = options.num_beams or 1
    else:
        found["num_beams"] = config.num_beams or 1
    if options.target_language is not None:
        field = "model.options.target_language"
        found["forced_bos_token_id"] = language_token(tokenizer, options.target_language, field)
    return found


def refuse_other_ways(config: Any, num_beams: int, name: str) -> None:
    """See that a model's own settings ask for no way of writing that transformers fetches code for.

    Raises:
        InvalidSpec: they do.
    """
    own = copy(config)
    own.num_beams, own.do_sample = num_beams, False
    with quiet():
        mode = own.get_generation_mode()
    if mode not in ("greedy_search", "beam_search", "assisted_generation"):
        asked = [each for each in OTHER_WAYS if getattr(config, each, None)]
        problem = (
            f"has a generation_config.json that asks for {mode.replace('_', ' ')}, whose code is "
            f"on the Hub and is never run: remove {' and '.join(asked)} from it"
        )
        raise InvalidSpec.at("model.name_or_path", name, problem)


def sees_padding(model: Any) -> bool:
    """Whether what a model writes depends on how far a prompt is padded."""
    encodes, own = model.config.is_encoder_decoder, model.generation_config
    if not encodes and model.config.model_type in COUNTS_PADDING:
        return True
    looks = LOOKS_AT_ENCODER if encodes else LOOKS_AT_PROMPT
    return any(getattr(own, name) not in (None, nothing) for name, nothing in looks.items())


def mixes_rows(model: Any) -> bool:
    """Whether a model can write for one row at a time only.

    Of a batch transformers fills up a row that has come to its end only where a token ends texts;
    where words alone do, it writes on for as long as any row has not met them. And what is guessed
    from a prompt it takes of one row only.
    """
    own = model.generation_config
    writes_on = own.stop_strings is not None and own.eos_token_id is None
    guesses = own.prompt_lookup_num_tokens is not None
    return writes_on or guesses or model.config.model_type in MIXES_ROWS
