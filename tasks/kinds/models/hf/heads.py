"""From a model's numbers to output columns."""

from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import NO_NUMBERS, Columns
from tasks.kinds.models.hf.options import Task


def probabilities(logits: Any, config: Any, task: Task) -> Any:
    """Scores as Hugging Face's own pipelines give them: that of sounds gives 1 to a lone class."""
    if config.problem_type == "regression":
        return logits
    is_lone = logits.shape[-1] == 1 and task != "audio-classification"
    if config.problem_type == "multi_label_classification" or is_lone:
        return logits.sigmoid()
    return logits.softmax(-1)


def class_names(config: Any, name: str) -> list[str]:
    """What the checkpoint of this name calls its classes, in the order of their scores.

    Raises:
        InvalidSpec: one of them has no name, so that others may have wrong ones.
    """
    names = config.id2label
    missing = [at for at in range(len(names)) if at not in names]
    if missing:
        problem = (
            f"has no name for class {missing[0]}: id2label in its config.json must number the "
            f"classes from 0 to {len(names) - 1}, in the order of the model's outputs"
        )
        raise InvalidSpec.at("model.name_or_path", name, problem)
    return [str(names[at]) for at in range(len(names))]


def refuse_no_numbers(vectors: Any) -> None:
    """See that vectors are of numbers.

    Raises:
        ValueError: one is not.
    """
    import torch

    if not torch.isfinite(vectors).all():
        raise ValueError(NO_NUMBERS)


def embedding_column(vectors: Any, normalize: bool, kept: int | None = None) -> Columns:
    """Vectors as lists of one length.

    Args:
        vectors: of all rows.
        normalize: whether to scale each to length 1.
        kept: how many of its numbers each has afterwards; None: all.

    Raises:
        ValueError: one is not of numbers.
    """
    import torch

    refuse_no_numbers(vectors)
    if normalize:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    vectors = vectors[:, :kept]
    flat = pa.array(vectors.cpu().numpy().ravel(), pa.float32())
    return {"embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[-1])}
