"""The CPU part of each task: images are decoded and resized, sounds heard, texts tokenised."""

from collections.abc import Sequence

from tasks.kinds.models.hf import (
    answers,
    image,
    label_pairs,
    sounds,
    speech,
    text,
    whole_images,
)
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.options import (
    ANSWERS,
    BY_ENTAILMENT,
    IMAGE,
    OF_SOUNDS,
    PLACES_IN_IMAGES,
    SPEECH,
    HuggingFaceOptions,
    Task,
)
from tasks.kinds.models.model import Function


def preprocessor(
    task: Task,
    checkpoint: Checkpoint,
    columns: Sequence[str],
    options: HuggingFaceOptions,
    num_threads: int,
) -> Function:
    """What prepares rows for a model.

    Args:
        task: that the model is for.
        checkpoint: the model's.
        columns: that it reads.
        options: of the task.
        num_threads: that images and sounds are shared out among.
    """
    column = columns[0]
    if task in PLACES_IN_IMAGES:
        return whole_images.pixels_function(checkpoint, column, num_threads)
    if task in IMAGE:
        return image.pixels_function(checkpoint, column, num_threads)
    if task in OF_SOUNDS:
        return sounds.preprocessor(checkpoint, column, num_threads)
    if task in SPEECH:
        return speech.features_function(checkpoint, column, num_threads)
    if task in ANSWERS:
        return answers.tokens_function(checkpoint, columns, options)
    if task in BY_ENTAILMENT:
        return label_pairs.tokens_function(checkpoint, column, options)
    return text.tokens_function(checkpoint, columns, task, options)
