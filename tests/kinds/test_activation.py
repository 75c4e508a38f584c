"""Scores that a model's last layer has made already are not squeezed once more."""

import numpy as np
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models.tensors.outputs import Activation, Seen, classes

LABELS = ["sport", "politics", "music"]


def sigmoids(rows: int, width: int = 3) -> np.ndarray:
    """What a multi-label classifier gives, whose last layer is a sigmoid."""
    drawn = np.random.default_rng(0).normal(-1, 3, (rows, width))
    return np.asarray(1 / (1 + np.exp(-drawn)), np.float32)


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_a_sigmoid_is_not_taken_for_logits(activation: Activation) -> None:
    given = {"output": sigmoids(rows=16)}
    message = (
        f"model.activation: '{activation}' is already applied, .* as after a sigmoid: set none"
    )
    with pytest.raises(InvalidSpec, match=message):
        classes(given, LABELS, activation, top_k=1, seen=Seen())
    made = classes(given, LABELS, "none", top_k=1, seen=Seen())
    np.testing.assert_array_equal(made["predicted_score"], given["output"].max(axis=1))


@pytest.mark.parametrize(
    "scores",
    [
        sigmoids(rows=15),  # too few to tell
        sigmoids(rows=60, width=2),
        sigmoids(rows=60, width=1),
        np.repeat(sigmoids(rows=4), 15, axis=0),  # of blank pages, say
        sigmoids(rows=60) / 2 + 0.3,  # of a model that can hardly tell rows apart
        sigmoids(rows=60) - 0.01,
        sigmoids(rows=60) * 1.1,
    ],
)
def test_what_may_be_logits_is_taken_for_such(scores: np.ndarray) -> None:
    labels = LABELS[: scores.shape[1]]
    made = classes({"output": scores}, labels, "sigmoid", top_k=1, seen=Seen())
    wanted = 1 / (1 + np.exp(-scores.max(axis=1)))
    np.testing.assert_allclose(made["predicted_score"], wanted, rtol=1e-6)


def test_scores_of_rows_that_are_alike_are_no_sigmoids_once_others_were_logits() -> None:
    """As where a video shows one scene: a run does not end over it in the night."""
    seen = Seen()
    for scores in (sigmoids(rows=16) - 1, sigmoids(rows=16)):
        classes({"output": scores}, LABELS, "softmax", top_k=1, seen=seen)
