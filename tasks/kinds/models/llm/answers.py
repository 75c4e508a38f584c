"""Answers of language models, and the columns made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import StageFailed
from tasks.kinds.models.arrays import NO_NUMBERS, Columns
from tasks.kinds.user_arrays import array_from_numpy

GENERATED = ("generated_text", "finish_reason", "prompt_tokens", "completion_tokens")
SERVED = ("served_model", "system_fingerprint")


@dataclass(frozen=True)
class Generated:
    """A text, and how it came about."""

    text: str
    finish_reason: str | None
    """`stop` where the model had said all, `length` where it was cut off."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    served_model: str | None = None
    """The model as the server calls it."""
    system_fingerprint: str | None = None
    """The server's word for its weights and configuration."""
    value: dict[str, Any] | None = None
    """What the text holds, where it is JSON that is to become columns."""


def generated_columns(answers: Sequence[Generated]) -> Columns:
    """Texts, why they end where they do, and the tokens they cost."""
    return {
        "generated_text": pa.array([each.text for each in answers], pa.string()),
        "finish_reason": pa.array([each.finish_reason for each in answers], pa.string()),
        "prompt_tokens": pa.array([each.prompt_tokens for each in answers], pa.int32()),
        "completion_tokens": pa.array([each.completion_tokens for each in answers], pa.int32()),
    }


def served_columns(answers: Sequence[Generated]) -> Columns:
    """Who wrote the texts, by the server's own word."""
    return {
        "served_model": pa.array([each.served_model for each in answers], pa.string()),
        "system_fingerprint": pa.array([each.system_fingerprint for each in answers], pa.string()),
    }


def embedding_column(vectors: Sequence[Sequence[float]], problem: str = NO_NUMBERS) -> Columns:
    """Vectors of one length, as `embedding`: float32.

    Args:
        vectors: of all rows.
        problem: to say of one that is not of numbers.

    Raises:
        StageFailed: they differ in length, so more than one model has made them.
        ValueError: one is not of numbers.
    """
    if len(lengths := set(map(len, vectors))) > 1:
        raise StageFailed(
            f"the server returned embeddings of different lengths: {sorted(lengths)} numbers"
        )
    numbers = np.asarray(vectors, np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError(problem)
    return {"embedding": array_from_numpy(numbers)}
