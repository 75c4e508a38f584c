"""Text generation: batches padded on the left, what a row gets does not depend on its batch."""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import with_columns
from tasks.kinds.models.hf.checkpoint import Checkpoint, torch_threads
from tasks.kinds.models.hf.options import NEW_TOKENS, HuggingFaceOptions
from tasks.kinds.models.hf.text import TOKENS, Ragged, TextInputs, batches_by_length
from tasks.kinds.models.model import Function, Placement
from tasks.protocol.batch import ROW

PROMPTS_PER_BATCH = 64


def generator(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions
) -> Function:
    """A predictor that adds `generated_text`, the new text alone."""
    import torch

    tokenizer = checkpoint.tokenizer()
    model = checkpoint.model("AutoModelForCausalLM", placement)
    inputs = TextInputs(tokenizer, placement)
    inputs.left = True

    def write(rows: pa.Table, index: np.ndarray) -> list[str]:
        arguments = inputs.arguments(Ragged(rows[TOKENS]), index)
        found = model.generate(
            **arguments,
            max_new_tokens=options.max_new_tokens or NEW_TOKENS,
            do_sample=False,
            num_beams=1,
            pad_token_id=inputs.padding,
            logits_processor=draws(options, rows[ROW].to_numpy()[index], placement.device),
        )
        new = found[:, arguments["input_ids"].shape[1] :].cpu()
        return list(tokenizer.batch_decode(new, skip_special_tokens=True))

    def predict(rows: pa.Table) -> pa.Table:
        lengths = Ragged(rows[TOKENS]).lengths
        if len(rows) and not lengths.min():
            raise ValueError("a prompt is empty: the model has nothing to go on from")
        texts = np.empty(len(rows), dtype=object)
        size = placement.rows(PROMPTS_PER_BATCH)
        with torch.inference_mode(), torch_threads(placement.num_threads):
            for index in batches_by_length(lengths, size, 0):
                texts[index] = write(rows, index)
        return with_columns(rows, {"generated_text": pa.array(texts.tolist(), pa.string())})

    return predict


def draws(options: HuggingFaceOptions, ids: np.ndarray, device: str) -> list[Any]:
    """What makes greedy decoding draw at random, each row from a stream of its own."""
    if not options.do_sample:
        return []
    seeds = [seed_of(options.seed or 0, int(row)) for row in ids]
    return [RowwiseSampling(seeds, options.temperature or 1.0, device)]


def seed_of(seed: int, row: int) -> int:
    """A row's own seed."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{row}".encode()).digest()[:7], "big")


class RowwiseSampling:
    """Adds Gumbel noise to the scores: the highest is then a draw from their softmax.

    torch's own sampling takes all rows' numbers from one stream, so a row's text would depend on
    the rows beside it, and a resumed run would differ.
    """

    def __init__(self, seeds: list[int], temperature: float, device: str) -> None:
        import torch

        self.streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.temperature = temperature

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores with noise; called by transformers before each token."""
        import torch

        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, stream in zip(noise, self.streams, strict=True):
            row.exponential_(generator=stream)
        return scores.float() / self.temperature - noise.log()
