"""From a model's numbers to output columns."""

from typing import Any

import pyarrow as pa

from tasks.kinds.models.arrays import Columns


def probabilities(logits: Any, config: Any) -> Any:
    """Scores as Hugging Face's own pipelines give them."""
    if config.problem_type == "regression":
        return logits
    if config.problem_type == "multi_label_classification" or logits.shape[-1] == 1:
        return logits.sigmoid()
    return logits.softmax(-1)


def class_names(config: Any) -> list[str]:
    """What the checkpoint calls its classes."""
    return [str(config.id2label[number]) for number in range(config.num_labels)]


def embedding_column(vectors: Any, normalize: bool) -> Columns:
    """Vectors as lists of one length."""
    import torch

    if normalize:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    flat = pa.array(vectors.numpy().ravel(), pa.float32())
    return {"embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[-1])}
