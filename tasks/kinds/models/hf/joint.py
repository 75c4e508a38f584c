"""Models with one space for texts and images, as CLIP and SigLIP."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.architectures import ENCODERS, HALVES
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.options import EMBEDDING, HuggingFaceOptions, Task
from tasks.kinds.models.hf.padding import reads_padding
from tasks.kinds.models.hf.text import TextInputs
from tasks.kinds.models.hf.vocabulary import padding_token
from tasks.kinds.models.model import Media, Placement

if TYPE_CHECKING:
    from tasks.kinds.models.huggingface import HuggingFaceModel

T = TypeVar("T", bound="HuggingFaceModel")
EMBEDS: dict[Media, Task] = {"text": "feature-extraction", "image": "image-feature-extraction"}

OF_TWO = ("text_config", "vision_config")
"""In config.json, of models of two media."""
ONE_VECTOR = 2
"""Dimensions of what a model makes of a batch, where it makes one vector of each row."""


def other_half(model: T, media: Media) -> T:
    """The half of a model that embeds texts, of the one that embeds images, and the other way.

    Raises:
        InvalidSpec: it has none, or makes no embeddings.
    """
    task = EMBEDS[media]
    if model.task not in EMBEDDING:
        problem = f"makes no embeddings; for {media}, use {task}"
        raise InvalidSpec.at("model.task", model.task, problem)
    if not has_one_space(model.checkpoint.model_class()):
        problem = (
            f"does not embed {media}: search with what {model.task} embeds or with a vector, or "
            "use a model of texts and images, such as CLIP"
        )
        raise InvalidSpec.at("model.name_or_path", model.name_or_path, problem)
    options = HuggingFaceOptions(normalize=model.options.normalize)
    other = model.model_copy(update={"task": task, "column": None, "options": options})
    other.check()
    return other


def has_one_space(model: Any) -> bool:
    """Whether texts and images become vectors that can be compared."""
    return hasattr(model, "get_text_features") and hasattr(model, "get_image_features")


def loaded(checkpoint: Checkpoint, media: Media, placement: Placement, unused: str) -> Any:
    """The model that makes embeddings.

    Args:
        checkpoint: of a half, `AutoModel` would leave out the projection, or want the other half.
        media: what it embeds.
        placement: where it runs.
        unused: as for any model without a head.
    """
    named = architecture_of(checkpoint)
    if named in HALVES[EMBEDS[media]] or named in ENCODERS:
        return checkpoint.model(named, placement)
    return checkpoint.model("AutoModel", placement, unused=unused)


def check_pooling(checkpoint: Checkpoint, task: Task, options: HuggingFaceOptions) -> None:
    """See that a model of two media is asked for no other pooling; no weight is read.

    Raises:
        InvalidSpec: it is.
    """
    config = checkpoint.json_file("config.json") or {}
    has_two = {*OF_TWO} <= {*config}  # of others no class is looked for, which takes seconds
    if options.own_pooling and (
        architecture_of(checkpoint) in HALVES[task]
        or (has_two and has_one_space(checkpoint.model_class()))
    ):
        refuse_other_pooling(options)


def refuse_other_pooling(options: HuggingFaceOptions) -> None:
    """See that vectors stay comparable with those of the other medium.

    Raises:
        InvalidSpec: another pooling is asked for.
    """
    if options.own_pooling:
        problem = (
            "would leave the vector space shared by this model's texts and images; leave it out"
        )
        raise InvalidSpec.at("model.options.pooling", options.pooling, problem)


def architecture_of(checkpoint: Checkpoint) -> str:
    """The name of the class that a checkpoint was saved from; empty where it does not say."""
    named = (checkpoint.json_file("config.json") or {}).get("architectures") or [""]
    return str(named[0])


def is_half(model: Any, media: Media) -> bool:
    """Whether a model is what another embeds texts or images with."""
    return type(model).__name__ in HALVES[EMBEDS[media]]


def shares_space(model: Any, media: Media) -> bool:
    """Whether a model's vectors are of a space that others share."""
    return has_one_space(model) or is_half(model, media)


def features_forward(
    model: Any, media: Media, options: HuggingFaceOptions
) -> Callable[[Mapping[str, Any]], Any]:
    """Batches to vectors.

    Args:
        model: of a shared space.
        media: what it is to embed.
        options: may ask for no other pooling.

    Raises:
        InvalidSpec: they do; or, once it is called, it gives several vectors for a row, as FLAVA.
    """
    refuse_other_pooling(options)
    half = is_half(model, media)
    features = model if half else getattr(model, f"get_{media}_features")
    output = f"{media}_embeds" if half else "pooler_output"

    def forward(arguments: Mapping[str, Any]) -> Any:
        found = features(**arguments)
        vectors = getattr(found, output, found)
        if vectors.ndim != ONE_VECTOR:
            problem = (
                f"is of type {type(model).__name__}, which gives a vector for each part of a row "
                "instead of one for the row: use another model, or choose one vector in your own "
                "class, with kind: python"
            )
            raise InvalidSpec.at("model.name_or_path", model.name_or_path, problem)
        return vectors

    return forward


def text_inputs(model: Any, tokenizer: Any, placement: Placement) -> TextInputs:
    """Batches of texts, padded as the model reads them."""
    inputs = TextInputs(tokenizer, placement)
    inputs.keep_to(model)
    inputs.same_lengths = reads_padding(model)
    if shares_space(model, "text"):
        read_as_trained(inputs, tokenizer, model.config)
    return inputs


def read_as_trained(inputs: TextInputs, tokenizer: Any, config: Any) -> None:
    """Pad texts as the model has learnt to read them.

    CLIP reads up to a text's end. SigLIP reads the padding as well: always of the same length, and
    as a rule without a mask.
    """
    inputs.masks = "attention_mask" in tokenizer.model_input_names
    if not inputs.masks or config.model_type.startswith("siglip"):
        inputs.width = config.get_text_config().max_position_embeddings
        inputs.padding = padding_token(tokenizer)  # another one would be another text
