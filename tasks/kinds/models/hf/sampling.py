"""Drawing tokens at random, each row from a stream of its own."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.llm.row_answers import Key, keys_of
from tasks.protocol.batch import PUBLISHED_ROW


def draws(options: HuggingFaceOptions, keys: Sequence[Key], device: str) -> list[Any]:
    """What makes greedy decoding draw at random; called by transformers before each token."""
    if not options.do_sample:
        return []
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    chain: list[Any] = [TemperatureLogitsWarper(float(options.temperature or 1.0))]
    if options.top_k:
        chain.append(TopKLogitsWarper(options.top_k))
    if options.top_p:
        chain.append(TopPLogitsWarper(options.top_p))
    seeds = [seed_of(options.seed or 0, key) for key in keys]
    return [*chain, RowwiseNoise(seeds, device)]


def draws_by(rows: pa.Table) -> list[Key]:
    """What a row's random numbers follow from: its key, or its place where it is of no job.

    Of rows that are published the key is of their id there, so that they draw what they drew.
    """
    keys = keys_of(rows) or [(place, 0) for place in range(len(rows))]
    if PUBLISHED_ROW not in rows.column_names:
        return keys
    published = rows[PUBLISHED_ROW].to_pylist()
    return [(row, child) for row, (_, child) in zip(published, keys, strict=True)]


def seed_of(seed: int, key: Key) -> int:
    """A row's own seed, and another one for each further child of a row."""
    row, child = key
    text = f"{seed}/{row}/{child}" if child else f"{seed}/{row}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


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
