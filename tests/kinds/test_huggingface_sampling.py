"""Drawing tokens row by row."""

import hashlib
from typing import Any

import pytest

from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.sampling import draws, seed_of

ROWS = 20_000
LOGITS = [2.0, 1.0, 0.0, -1.0]


def shares(**options: Any) -> Any:
    """How often each of four tokens is drawn."""
    import torch

    keys = [(row, 0) for row in range(ROWS)]
    chain = draws(HuggingFaceOptions(do_sample=True, seed=5, **options), keys, "cpu")
    scores = torch.tensor(LOGITS).expand(ROWS, -1)
    for each in chain:
        scores = each(None, scores)
    return torch.bincount(scores.argmax(-1), minlength=4) / ROWS


@pytest.mark.parametrize(
    ("options", "kept"), [({}, 4), ({"top_k": 2}, 2), ({"top_p": 0.9}, 2), ({"top_p": 0.97}, 3)]
)
def test_draws_are_from_the_models_distribution(options: dict[str, Any], kept: int) -> None:
    import torch

    wanted = (torch.tensor(LOGITS[:kept]) / 0.7).softmax(-1)
    found = shares(temperature=0.7, **options)
    # Four standard deviations of a share of 20,000 draws.
    assert (found[:kept] - wanted).abs().max() < 4 * 0.5 / ROWS**0.5
    assert found[kept:].sum() == 0


def test_a_first_child_draws_as_a_row_without_brothers_does() -> None:
    """Else the texts of all runs that were made before would change."""
    assert seed_of(5, (7, 0)) == int.from_bytes(hashlib.sha256(b"5/7").digest()[:7], "big")
    assert len({seed_of(5, (7, child)) for child in range(9)}) == 9
