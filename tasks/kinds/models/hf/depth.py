"""Depth estimation: how far away what each pixel of an image shows is."""

from dataclasses import replace
from typing import Any

import numpy as np

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.hub import FIELD
from tasks.kinds.models.hf.image_maps import ON_CPU, ON_GPU, MapMaker, Size, last_steps
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.whole_images import WholeImages
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.vision.depth_maps import DepthMap, depth_columns
from tasks.kinds.models.vision.detection import whole_numbers_of_pixels

FINISH = "post_process_depth_estimation"
DEPTHS = ("predicted_depth", "field_of_view")
"""Of a model's outputs, those that say how far away what is; Depth Pro has the second too."""

BY_TORCHVISION = "zoedepth"
"""Type of models whose processor resizes with that package, whichever of its two classes it is."""


def depth_estimator(
    checkpoint: Checkpoint, placement: Placement, _options: HuggingFaceOptions
) -> Function:
    """A predictor that adds `depth`, `depth_min` and `depth_max`."""
    placement = whole_numbers_of_pixels(placement)
    model = checkpoint.model("AutoModelForDepthEstimation", placement)
    if votes(model.config):
        placement = replace(placement, batch_size=1)
    inputs = WholeImages(checkpoint, placement, ON_CPU if placement.device == "cpu" else ON_GPU)
    finish = last_steps(checkpoint, inputs.preparation.processor, FINISH)

    def depths(outputs: Any, size: Size) -> np.ndarray:
        # By its place: it is the size to make of all processors, and with ZoeDepth's by way of the
        # padding that this one adds.
        (made,) = finish(outputs, [size])
        found: np.ndarray = made["predicted_depth"].cpu().numpy()
        return found.reshape(size)  # a side of one pixel is squeezed away

    maker = MapMaker(DEPTHS, depths, DepthMap.of, depth_columns)
    return maker.mapper(model, inputs, placement)


def check(checkpoint: Checkpoint) -> None:
    """See that a model estimates depths; no weight is read.

    Raises:
        InvalidSpec: it does not.
    """
    from transformers import MODEL_FOR_DEPTH_ESTIMATION_MAPPING

    config = checkpoint.config()
    if type(config) not in MODEL_FOR_DEPTH_ESTIMATION_MAPPING:
        problem = (
            f"is of type {config.model_type}, which does not estimate depth: use a model that "
            "does, such as one of type depth_anything, dpt or zoedepth"
        )
        raise InvalidSpec.at(FIELD, checkpoint.name, problem)
    if config.model_type == BY_TORCHVISION:
        require(FIELD, checkpoint.name, "torchvision", "torchvision")
    last_steps(checkpoint, checkpoint.image_processor(), FINISH)


def votes(config: Any) -> bool:
    """Whether a batch's images decide together whether they were taken indoors or outdoors.

    So does a ZoeDepth that was trained for both.
    """
    return len(getattr(config, "bin_configurations", None) or ()) > 1
