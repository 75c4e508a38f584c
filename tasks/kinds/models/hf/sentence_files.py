"""What a checkpoint's sentence-transformers files say of how its texts are read."""

from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import Checkpoint

MODULES = "modules.json"
"""Where it is missing, sentence-transformers reads none of its other files either."""
CONFIG = "config_sentence_transformers.json"
KIND = "SentenceTransformer"
"""What these files call a model of embeddings; prompts of a reranker are none for it."""
SETTINGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Of its transformer; the first one counts. All but the first are from old versions."""
LAST_LAYER = {"method": "forward", "method_output_name": "last_hidden_state"}
"""What vectors are made of as a rule."""
OF_ONE_SPACE = "get_text_features"
"""The method that makes them, of a model whose texts and images share a space."""
MESSAGE = "message"
"""What these files call a conversation; where a model takes some, each text becomes one."""
ARGUMENTS = {
    ("model", "config.json"): ("config_args", "config_kwargs", "model_args", "model_kwargs"),
    ("tokenizer", "tokenizer_config.json"): ("tokenizer_args", "processor_kwargs"),
}
"""With which the library loads what has these files, by the names of older and newer versions."""
OF_LOADING = frozenset(
    {"cache_dir", "local_files_only", "revision", "token", "trust_remote_code", "use_cache"}
    | {"attn_implementation", "device_map", "dtype", "torch_dtype", "low_cpu_mem_usage"}
    | {"add_pooling_layer", "use_safetensors", "use_fast"}
    | {"model_max_length"}
)
"""Settings that change no vector; a dtype, which the spec says; and what `most_tokens` knows."""
NO_PROMPTS = {"query": "", "document": ""}
"""Names that need not be listed."""


def default_prompt(checkpoint: Checkpoint) -> str:
    """What stands before each text where nobody says anything else.

    Raises:
        InvalidSpec: the files name a prompt that they do not have.
    """
    config = config_of(checkpoint)
    name = config.get("default_prompt_name")
    if name is None:
        return ""
    prompts: dict[str, Any] = {**NO_PROMPTS, **(config.get("prompts") or {})}
    if name not in prompts:
        problem = (
            f"has a {CONFIG} whose default_prompt_name, {name!r}, is not among its prompts; set "
            "model.options.prefix to the text to put before each text"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)
    return str(prompts[name] or "")


def query_prompt(checkpoint: Checkpoint) -> str | None:
    """What stands before a text that is searched for; None: the files do not say."""
    prompt: str | None = (config_of(checkpoint).get("prompts") or {}).get("query")
    return prompt


def numbers_kept(checkpoint: Checkpoint) -> int | None:
    """How many numbers the library keeps of each vector, from the first on; None: all.

    A model may be trained so that the first ones say most.
    """
    return config_of(checkpoint).get("truncate_dim")


def config_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the files say of embeddings as a whole; empty where they are of something else."""
    if checkpoint.json_file(MODULES) is None:
        return {}
    config: dict[str, Any] = checkpoint.json_file(CONFIG) or {}
    return config if config.get("model_type", KIND) == KIND else {}


def settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """How the library's transformer reads texts; empty without its files."""
    if checkpoint.json_file(MODULES) is None:
        return {}
    return next(filter(None, map(checkpoint.json_file, SETTINGS)), {})


def modalities(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the library makes vectors of, and how; empty where its files do not say."""
    return settings(checkpoint).get("modality_config") or {}


def output_taken(checkpoint: Checkpoint) -> dict[str, Any]:
    """Which of a model's outputs vectors are made of: of which method, and by which name.

    Newer versions of the library write it down.
    """
    of_texts = modalities(checkpoint).get("text") or LAST_LAYER
    return {name: of_texts.get(name) for name in LAST_LAYER}


def refuse_other_settings(checkpoint: Checkpoint) -> None:
    """See that the library loads model and tokenizer as their own files have them, as we do.

    Raises:
        InvalidSpec: it would change some of their settings.
    """
    own = settings(checkpoint)
    for (whose, file), names in ARGUMENTS.items():
        given = {name: value for each in names for name, value in (own.get(each) or {}).items()}
        telling = {*given} - OF_LOADING
        # A cache of the Hub need not have a file that nothing is asked of.
        has = (checkpoint.json_file(file) or {}) if telling else {}
        others = [each for each in telling if given[each] != has.get(each)]
        if others:
            problem = (
                f"has a sentence_bert_config.json that sets {', '.join(sorted(others))} of the "
                f"{whose}, which has no effect here: set it in its {file}"
            )
            raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)


def refuse_other_output(checkpoint: Checkpoint) -> None:
    """See that vectors are pooled of the model's last layer for a text as it is, as ours are.

    Raises:
        InvalidSpec: they are of something else.
    """
    if MESSAGE in modalities(checkpoint):
        problem = (
            f"makes its vectors from texts in its chat template ({MESSAGE!r} in "
            "sentence_bert_config.json), which is not supported: load it in your own class, with "
            "kind: python; or set model.options.pooling to mean, cls or lasttoken to embed the "
            "texts as they are"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)
    taken = output_taken(checkpoint)
    if taken != LAST_LAYER:
        problem = (
            f"makes its vectors from {taken['method_output_name']} of the model's "
            f"{taken['method']}, which is not supported; set model.options.pooling to mean, cls "
            "or lasttoken to use its last layer"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)


def most_tokens(checkpoint: Checkpoint) -> int | None:
    """Tokens after which the library cuts off a text; None: its files do not say.

    Arguments for each call stand before those with which the tokenizer was made, and these before
    the field that is as old as the library.
    """
    own = settings(checkpoint)
    of_texts = (own.get("processing_kwargs") or {}).get("text") or {}
    made_with = own.get("processor_kwargs") or own.get("tokenizer_args") or {}
    of_call, of_tokenizer = of_texts.get("max_length"), made_with.get("model_max_length")
    return of_call or of_tokenizer or own.get("max_seq_length")


def lowercase(tokenizer: Any) -> None:
    """Make a tokenizer read texts in lower case, but for the special tokens in them."""
    from tokenizers.normalizers import Lowercase, Sequence

    if not tokenizer.is_fast:
        tokenizer.do_lower_case = True
        return
    letters = tokenizer.backend_tokenizer
    own = [letters.normalizer] if letters.normalizer else []
    letters.normalizer = Sequence([Lowercase(), *own])
