"""Models with one space for texts and images, as CLIP and SigLIP."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.options import EMBEDDING, HuggingFaceOptions, Task
from tasks.kinds.models.hf.text import TextInputs
from tasks.kinds.models.model import Media

if TYPE_CHECKING:
    from tasks.kinds.models.huggingface import HuggingFaceModel

T = TypeVar("T", bound="HuggingFaceModel")
EMBEDS: dict[Media, Task] = {"text": "feature-extraction", "image": "image-feature-extraction"}


def other_half(model: T, media: Media) -> T:
    """The half of a model that embeds texts, of the one that embeds images, and the other way.

    Raises:
        InvalidSpec: it has none, or makes no embeddings.
    """
    task = EMBEDS[media]
    if model.task not in EMBEDDING:
        problem = f"makes no embeddings; those of {media} are made by {task}"
        raise InvalidSpec.at("model.task", model.task, problem)
    if not has_one_space(model.checkpoint.model_class()):
        problem = (
            f"embeds no {media}: search with what {model.task} embeds, with a vector, or embed "
            "with a model of texts and images, such as CLIP"
        )
        raise InvalidSpec.at("model.name_or_path", model.name_or_path, problem)
    options = HuggingFaceOptions(normalize=model.options.normalize)
    other = model.model_copy(update={"task": task, "column": None, "options": options})
    other.check()
    return other


def has_one_space(model: Any) -> bool:
    """Whether texts and images become vectors that can be compared."""
    return hasattr(model, "get_text_features") and hasattr(model, "get_image_features")


def features_forward(
    features: Callable[..., Any], options: HuggingFaceOptions
) -> Callable[[Mapping[str, Any]], Any]:
    """Batches to vectors.

    Args:
        features: the model's `get_text_features` or `get_image_features`.
        options: may ask for no other pooling.

    Raises:
        InvalidSpec: they do.
    """
    if options.pooling in ("mean", "cls"):
        problem = "would leave the space that texts and images of this model share; leave it out"
        raise InvalidSpec.at("model.options.pooling", options.pooling, problem)

    def forward(arguments: Mapping[str, Any]) -> Any:
        found = features(**arguments)
        return getattr(found, "pooler_output", found)

    return forward


def read_as_trained(inputs: TextInputs, tokenizer: Any, config: Any) -> None:
    """Pad texts as the model has learnt to read them.

    CLIP reads up to a text's end. SigLIP reads the padding as well: always of the same length, and
    as a rule without a mask.
    """
    inputs.left = False
    inputs.masks = "attention_mask" in tokenizer.model_input_names
    if not inputs.masks or config.model_type.startswith("siglip"):
        inputs.width = config.get_text_config().max_position_embeddings
