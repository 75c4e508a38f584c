"""From a model's numbers to output columns."""

from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import Columns


def probabilities(logits: Any, config: Any) -> Any:
    """Scores as Hugging Face's own pipelines give them."""
    if config.problem_type == "regression":
        return logits
    if config.problem_type == "multi_label_classification" or logits.shape[-1] == 1:
        return logits.sigmoid()
    return logits.softmax(-1)


def label_columns(logits: Any, config: Any, top_k: int) -> Columns:
    """The best labels and their scores; lists where more than one is wanted."""
    scores, found = probabilities(logits, config).sort(dim=-1, descending=True, stable=True)
    count = min(top_k, logits.shape[-1])
    names = pa.array([str(config.id2label[i]) for i in range(logits.shape[-1])], pa.string())
    labels = names.take(pa.array(found[:, :count].numpy().ravel()))
    values = pa.array(scores[:, :count].numpy().ravel(), pa.float32())
    if top_k > 1:
        offsets = pa.array(np.arange(len(logits) + 1) * count, pa.int32())
        labels = pa.ListArray.from_arrays(offsets, labels)
        values = pa.ListArray.from_arrays(offsets, values)
    return {"predicted_label": labels, "predicted_score": values}


def embedding_column(vectors: Any, normalize: bool) -> Columns:
    """Vectors as lists of one length."""
    import torch

    if normalize:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    flat = pa.array(vectors.numpy().ravel(), pa.float32())
    return {"embedding": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[-1])}
