"""Drawing tokens at random, each row from a stream of its own."""

import hashlib
from typing import Any

import numpy as np

from tasks.kinds.models.hf.options import HuggingFaceOptions


def draws(options: HuggingFaceOptions, ids: np.ndarray, device: str) -> list[Any]:
    """What makes greedy decoding draw at random; called by transformers before each token."""
    if not options.do_sample:
        return []
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    chain: list[Any] = [TemperatureLogitsWarper(float(options.temperature or 1.0))]
    if options.top_k:
        chain.append(TopKLogitsWarper(options.top_k))
    if options.top_p:
        chain.append(TopPLogitsWarper(options.top_p))
    seeds = [seed_of(options.seed or 0, int(row)) for row in ids]
    return [*chain, RowwiseNoise(seeds, device)]


def seed_of(seed: int, row: int) -> int:
    """A row's own seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{row}".encode()).digest()[:7], "big")


class RowwiseNoise:
    """Adds Gumbel noise to the scores: the highest is then a draw from their softmax.

    torch's own sampling takes all rows' numbers from one stream, so a row's text would depend on
    the rows beside it, and a resumed run would differ.
    """

    def __init__(self, seeds: list[int], device: str) -> None:
        import torch

        self.streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores with noise."""
        import torch

        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, stream in zip(noise, self.streams, strict=True):
            row.exponential_(generator=stream)
        return scores.float() - noise.log()
