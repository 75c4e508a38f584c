"""What an image model makes of an image's patches before one vector is made of them."""

from collections.abc import Callable
from typing import Any

Model = Callable[..., Any]
LEAVES_OUT = "vit_mae"
"""Type of models that leave out patches at random, also when they are not trained."""
CLASS_TOKEN = ("cls_", "class_")
"""Beginnings of the own names of its weights: `cls_token`, `class_embedding`, ..."""


def seeing_all(model: Any) -> Model:
    """A model that leaves out no patch, and keeps them in their order.

    Args:
        model: its configuration is changed where it would.
    """
    if model.config.model_type != LEAVES_OUT:
        return model
    import torch

    model.config.mask_ratio = 0.0
    count = model.embeddings.patch_embeddings.num_patches

    def call(pixel_values: Any) -> Any:
        # Else it shuffles them, and sums up in another order each time.
        order = torch.arange(count, device=pixel_values.device).expand(len(pixel_values), -1)
        return model(pixel_values=pixel_values, noise=order)

    return call


def has_class_token(model: Any) -> bool:
    """Whether a model has a vector for the whole image, which stands before those of patches."""
    names = (name.rpartition(".")[2] for name, _ in model.named_parameters())
    return any(each.startswith(CLASS_TOKEN) for each in names)
