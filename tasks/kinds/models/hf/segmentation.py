"""Semantic segmentation: the class of each pixel of an image."""

from functools import partial
from typing import Any

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.models.hf import heads
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.hub import FIELD
from tasks.kinds.models.hf.image_maps import ON_CPU, ON_GPU, MapMaker, Size, last_steps
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.whole_images import WholeImages
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.vision.class_maps import (
    CLASSES_OF_A_MAP,
    Segmented,
    class_map,
    segmentation_columns,
)
from tasks.kinds.models.vision.detection import whole_numbers_of_pixels
from tasks.kinds.models.vision.grey_png import Numbers

FINISH = "post_process_semantic_segmentation"
SCORES = ("logits", "class_queries_logits", "masks_queries_logits", "pred_masks")
"""Of a model's outputs, those that say what is where."""
OF_MASKS = ("detr", "maskformer", "mask2former")
"""Types of models that give masks, each with its scores, of which transformers makes a map."""


def segmenter(
    checkpoint: Checkpoint, placement: Placement, _options: HuggingFaceOptions
) -> Function:
    """A predictor that adds `segmentation`, `labels`, `label_ids` and `shares`."""
    placement = whole_numbers_of_pixels(placement)
    model = checkpoint.model(auto_class(checkpoint), placement)
    names = names_of_classes(model.config, checkpoint.name)
    inputs = WholeImages(checkpoint, placement, ON_CPU if placement.device == "cpu" else ON_GPU)
    finish = last_steps(checkpoint, inputs.preparation.processor, FINISH)

    def classes(outputs: Any, size: Size) -> Numbers:
        (made,) = finish(outputs, return_segmentation_scores=True)
        return class_map(made.segmentation_scores, size)

    columns = partial(segmentation_columns, names=names)
    return MapMaker(SCORES, classes, Segmented.of, columns).mapper(model, inputs, placement)


def check(checkpoint: Checkpoint) -> None:
    """See that a model makes maps, of classes that have names; no weight is read.

    Raises:
        InvalidSpec: it does not.
    """
    auto_class(checkpoint)
    names_of_classes(checkpoint.config(), checkpoint.name)
    last_steps(checkpoint, checkpoint.image_processor(), FINISH)


def names_of_classes(config: Any, name: str) -> list[str]:
    """What the checkpoint of this name calls its classes, of which a map tells one from another.

    Raises:
        InvalidSpec: it does not; or one of them has no name.
    """
    names = heads.class_names(config, name)
    if 1 < len(names) <= CLASSES_OF_A_MAP:
        return names
    problem = (
        f"has {counted(len(names), 'name')} of classes; a map can have 2 to {CLASSES_OF_A_MAP:,} "
        "classes: load this model in your own class, with kind: python"
    )
    raise InvalidSpec.at(FIELD, name, problem)


def auto_class(checkpoint: Checkpoint) -> str:
    """The class of transformers that loads a model.

    Raises:
        InvalidSpec: there is none that makes maps.
    """
    from transformers import MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING

    config = checkpoint.config()
    if type(config) in MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING:
        return "AutoModelForSemanticSegmentation"
    if config.model_type in OF_MASKS:
        return "AutoModelForUniversalSegmentation"
    problem = (
        f"is of type {config.model_type}, which makes no class map here: use one that does, such "
        f"as type segformer, upernet or {OF_MASKS[-1]}; or load this one in your own class, with "
        "kind: python"
    )
    raise InvalidSpec.at(FIELD, checkpoint.name, problem)
