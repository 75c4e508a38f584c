"""Models that translate between many languages: how their tokenizers name them."""

import difflib
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.options import HuggingFaceOptions

SOURCE, TARGET = "model.options.source_language", "model.options.target_language"


def languages(tokenizer: Any) -> dict[str, int]:
    """A tokenizer's languages, and the token that stands for each; empty where it has none."""
    if not hasattr(tokenizer, "src_lang"):
        return {}
    codes = getattr(tokenizer, "lang_code_to_id", None) or {
        str(token): tokenizer.convert_tokens_to_ids(str(token))
        for token in tokenizer.extra_special_tokens
    }
    return dict(codes)


def language_token(tokenizer: Any, language: str, field: str) -> int:
    """The token that stands for a language.

    Raises:
        InvalidSpec: the tokenizer knows no such language; names those that look alike.
    """
    known = languages(tokenizer)
    if language in known:
        return known[language]
    near = difflib.get_close_matches(language, known, n=5, cutoff=0.3) or sorted(known)[:5]
    problem = f"is not a language of this model's tokenizer; it knows {', '.join(near)}, ..."
    if not known:
        problem = "has no effect: this model's tokenizer knows no languages; leave it out"
    raise InvalidSpec.at(field, language, problem)


def check_languages(checkpoint: Checkpoint, options: HuggingFaceOptions) -> None:
    """See that the tokenizer knows the languages, and that the one to write in is given.

    Raises:
        InvalidSpec: says which languages there are.
    """
    tokenizer = checkpoint.tokenizer()
    for field, language in ((SOURCE, options.source_language), (TARGET, options.target_language)):
        if language is not None:
            language_token(tokenizer, language, field)
    known = languages(tokenizer)
    own = {
        **checkpoint.json_file("config.json"),
        **(checkpoint.json_file("generation_config.json") or {}),
    }
    starts_in_one = own.get("forced_bos_token_id") or own.get("decoder_start_token_id") in [
        *known.values()
    ]
    if known and options.target_language is None and not starts_in_one:
        some = ", ".join(sorted(known)[:5])
        raise InvalidSpec.at(TARGET, None, f"must be one of this model's languages: {some}, ...")
