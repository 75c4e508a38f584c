"""Models with one space for texts and images, as CLIP and SigLIP."""

from collections.abc import Callable, Mapping
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.text import TextInputs


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
