"""One vector of many: how a model's last layer becomes an embedding."""

from collections.abc import Callable, Mapping
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf import sentence_files
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.context_length import longest_text
from tasks.kinds.models.hf.dense import Layer, config_of, layer_of
from tasks.kinds.models.hf.options import HuggingFaceOptions, OwnPooling
from tasks.kinds.models.hf.patches import has_class_token, seeing_all

Forward = Callable[[Mapping[str, Any]], Any]
KNOWN_MODULES = ("Transformer", "Pooling", "Dense", "Normalize")
"""In the order in which they are done; of the third there may be several."""
POOLINGS: dict[str, OwnPooling] = {
    "mean_tokens": "mean",
    "cls_token": "cls",
    "mean": "mean",
    "cls": "cls",
    "lasttoken": "lasttoken",
}
"""By their names in files, of old versions too."""
UNUSED_OF_TEXTS = ".pooler."
"""In the names of weights that no embedding goes through; a checkpoint with a head lacks them."""
UNUSED_OF_IMAGES = ".pooler.dense."
"""The same: a pooler of another make gives the model's own embedding."""


def modules_of(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    """The steps that the checkpoint's sentence-transformers files list, and the folder of each.

    Empty without such files.

    Raises:
        InvalidSpec: a step is not supported, or not where it stands.
    """
    modules = checkpoint.json_file(sentence_files.MODULES) or []
    found = [(module["type"].rsplit(".", 1)[-1], module["path"]) for module in modules]
    kinds = [kind for kind, _ in found]
    unknown = [kind for kind in kinds if kind not in KNOWN_MODULES]
    of_tokens = "Dense" in kinds and "Pooling" not in kinds
    if unknown or of_tokens or kinds != sorted(kinds, key=KNOWN_MODULES.index):
        problem = (
            f"makes embeddings with {unknown or kinds}, which is not supported; set "
            "model.options.pooling and model.options.normalize instead"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)
    return found


def pooling_of(name: str, config: dict[str, Any]) -> OwnPooling:
    """The pooling that a configuration asks for.

    Raises:
        InvalidSpec: it is not supported.
    """
    prefix = "pooling_mode_"
    modes = {key.removeprefix(prefix) for key, on in config.items() if on and prefix in key}
    if own := config.get("pooling_mode"):
        modes = {own} if isinstance(own, str) else set(own)
    first, *more = sorted(modes) or ["mean"]
    if first in POOLINGS and not more:
        return POOLINGS[first]
    problem = (
        f"uses the pooling {sorted(modes)}, which is not supported; set model.options.pooling to "
        "mean, cls or lasttoken instead"
    )
    raise InvalidSpec.at("model.name_or_path", name, problem)


def text_forward(model: Any, pooling: str, left_out: int = 0) -> Forward:
    """Texts to vectors.

    Args:
        model: called with a batch.
        pooling: how one vector is made of all.
        left_out: how many tokens at the beginning of each text none of it is made of.
    """

    def forward(arguments: Mapping[str, Any]) -> Any:
        hidden = model(**arguments).last_hidden_state
        mask = arguments["attention_mask"]
        count = mask.cumsum(1)
        if pooling == "lasttoken":
            last = count.argmax(1)  # the first of the highest, on whichever side padding is
            return hidden[range(len(last)), last].float()
        mask = mask * (count > left_out)
        if pooling == "cls":
            first = mask.argmax(1)  # not 0 where tokens are left out
            return hidden[range(len(first)), first].float()
        weights = mask[..., None].float()
        return (hidden.float() * weights).sum(1) / weights.sum(1).clamp(min=1)

    return forward


def image_forward(model: Any, pooling: str) -> Forward:
    """Images to vectors.

    Raises:
        InvalidSpec: the vector of a token is wanted that the model has not.
    """
    if pooling == "cls" and not has_class_token(model):
        raise no_class_token(model)
    look = seeing_all(model)
    of_patches = pooling == "mean" or (pooling == "auto" and not has_class_token(model))

    def forward(arguments: Mapping[str, Any]) -> Any:
        found = look(**arguments)
        hidden = found.last_hidden_state
        if hidden.ndim == 4:  # a convolutional network's: one vector for each place
            if pooling == "cls":  # as CvT, whose token is not among them
                raise no_class_token(model)
            own = getattr(found, "pooler_output", None) if pooling == "auto" else None
            return hidden.float().flatten(2).mean(2) if own is None else own.flatten(1)
        if pooling == "auto" and has_own_embedding(model, found):
            return found.pooler_output
        return hidden.float().mean(1) if of_patches else hidden[:, 0]

    return forward


def no_class_token(model: Any) -> InvalidSpec:
    """What to say of a model that has no token for the whole image beside those of its parts."""
    problem = (
        f"needs a class token, which {type(model).__name__} does not give: set auto (the model's "
        "own image embedding, otherwise the mean) or mean"
    )
    return InvalidSpec.at("model.options.pooling", "cls", problem)


def has_own_embedding(model: Any, found: Any) -> bool:
    """Whether the pooled output is trained; ViT's dense layer seldom is: then its first token."""
    dense = hasattr(getattr(model, "pooler", None), "dense")
    return getattr(found, "pooler_output", None) is not None and not dense


def wanted(options: HuggingFaceOptions, checkpoint: Checkpoint) -> tuple[str, bool]:
    """Pooling and whether to normalise: what the user says, else what the model's files say."""
    if options.own_pooling and options.normalize is not None:
        return options.own_pooling, options.normalize
    sentence_files.refuse_other_settings(checkpoint)
    modules = dict(modules_of(checkpoint))
    normalize = "Normalize" in modules if options.normalize is None else options.normalize
    if options.own_pooling:
        return options.own_pooling, normalize
    sentence_files.refuse_other_output(checkpoint)
    return pooling_of(checkpoint.name, pooling_config(checkpoint, modules)), normalize


def check_files(options: HuggingFaceOptions, checkpoint: Checkpoint) -> None:
    """See that the checkpoint's files ask for nothing that is not supported; no weight is read.

    Raises:
        InvalidSpec: they do.
    """
    modules = checkpoint.json_file(sentence_files.MODULES) or []
    is_clip = modules and not modules[0]["type"].endswith(".Transformer")
    if is_clip or sentence_files.output_taken(checkpoint)["method"] == sentence_files.OF_ONE_SPACE:
        return  # whose vectors need no other step
    wanted(options, checkpoint)
    for folder in dense_folders(options, checkpoint):
        config_of(checkpoint, folder)


def layers(options: HuggingFaceOptions, checkpoint: Checkpoint, device: str) -> list[Layer]:
    """What pooled vectors go through."""
    folders = dense_folders(options, checkpoint)
    return [layer_of(checkpoint, folder, device) for folder in folders]


def dense_folders(options: HuggingFaceOptions, checkpoint: Checkpoint) -> list[str]:
    """Where the layers lie that pooled vectors go through; none where the files do not count."""
    if options.own_pooling and options.normalize is not None:
        return []
    return [folder for kind, folder in modules_of(checkpoint) if kind == "Dense"]


def pooling_config(checkpoint: Checkpoint, modules: Mapping[str, str]) -> dict[str, Any]:
    """What the checkpoint's files say of pooling; empty without such files.

    Raises:
        InvalidSpec: one of them names another, which is not there; or none says how to pool.
    """
    if modules and "Pooling" not in modules:
        problem = (
            "has a modules.json without a Pooling module, so how to pool token vectors is "
            "unknown: set model.options.pooling to mean, cls or lasttoken"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)
    file = f"{modules.get('Pooling', '1_Pooling')}/config.json"
    config: dict[str, Any] | None = checkpoint.json_file(file)
    if config is None and "Pooling" in modules:
        problem = (
            f"lacks {file}, which its modules.json lists and which says how to pool token "
            "vectors: copy it too, or set model.options.pooling to mean, cls or lasttoken"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)
    return config or {}


def tokens_left_out(
    options: HuggingFaceOptions, checkpoint: Checkpoint, tokenizer: Any, prefix: str
) -> int:
    """How many tokens of each text are of a prefix that the model's files do not pool."""
    if not prefix or options.own_pooling:
        return 0
    if pooling_config(checkpoint, dict(modules_of(checkpoint))).get("include_prompt", True):
        return 0
    room = longest_text(checkpoint, tokenizer, "feature-extraction", options)
    tokens = tokenizer(prefix, truncation=True, max_length=room)["input_ids"]
    return len(tokens) - (tokens[-1] in tokenizer.all_special_ids)  # which ends texts, not prompts
