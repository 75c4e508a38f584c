"""Drawing tokens row by row."""

from tasks.kinds.models.hf.generation import RowwiseSampling, seed_of


def test_draws_are_from_the_models_distribution() -> None:
    import torch

    rows, temperature = 20_000, 0.7
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    sampling = RowwiseSampling([seed_of(5, row) for row in range(rows)], temperature, "cpu")
    drawn = sampling(None, logits.expand(rows, -1)).argmax(-1)
    shares = torch.bincount(drawn, minlength=4) / rows
    # Four standard deviations of a share of 20,000 draws.
    assert (shares - (logits / temperature).softmax(-1)).abs().max() < 4 * 0.5 / rows**0.5
