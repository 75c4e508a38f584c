"""Detectors: what is found in an image has its place in pixels of that image as it was read."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tasks.kinds.models.hf import heads
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.whole_images import WholeImages
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.vision.detection import (
    Arguments,
    Choice,
    Found,
    detect_with,
    refuse_no_numbers,
    whole_numbers_of_pixels,
)

ON_CPU, ON_GPU = 4, 8
"""Images in a batch."""


def detector(checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions) -> Function:
    """A predictor that adds `boxes`, `labels` and `scores`."""
    placement = whole_numbers_of_pixels(placement)
    model = checkpoint.model("AutoModelForObjectDetection", placement)
    inputs = WholeImages(checkpoint, placement, ON_CPU if placement.device == "cpu" else ON_GPU)
    names = heads.class_names(model.config, checkpoint.name)
    choice = Choice.by(names, options.threshold, options.max_detections)
    finish = inputs.preparation.processor.post_process_object_detection
    call_of = partial(forward_of, finish=finish, threshold=choice.threshold)
    return detect_with(inputs.batches, model, call_of, choice, placement)


def forward_of(
    model: Any, finish: Callable[..., list[Found]], threshold: float
) -> Callable[[Arguments], Iterable[Found]]:
    """Images to objects, by the checkpoint's own last steps."""

    def forward(arguments: Arguments) -> Iterable[Found]:
        sizes = arguments.pop("sizes").to(model.device)
        outputs = model(**arguments)
        for name in ("logits", "pred_boxes"):
            outputs[name] = outputs[name].float()
        # Of a hopeless label, -inf may be the score.
        refuse_no_numbers((outputs["logits"].amax(-1), outputs["pred_boxes"]))
        return finish(outputs, threshold=threshold, target_sizes=sizes)

    return forward
