"""Plain Ray Data, as well as we can: prompts sorted by length and padded on the left."""

import numpy as np
import pyarrow as pa

from tests.benchmarks.clock import Clock
from tests.benchmarks.plain.rows import map_rows
from tests.benchmarks.script import arguments
from tests.benchmarks.workloads.generation import KEY, MODEL

GRID = {
    "batch_size": [256, 1_024],
    "prompts": [32, 64, 128],
    "block_a_batch": [0, 1],
    "pool": [1, 2],
    "threads": [1, 2],
}


class Writer:
    """The model over Arrow batches."""

    def __init__(self, weights: str, prompts: int, threads: int, clocks: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(threads)
        self.prompts, self.clock = prompts, Clock(clocks)
        self.tokenizer = AutoTokenizer.from_pretrained(weights, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(weights).eval()

    def __call__(self, batch: pa.Table) -> pa.Table:
        return self.clock.timed(self.write, batch, len(batch))

    def write(self, batch: pa.Table) -> pa.Table:
        """New texts, and the prompt that each is of."""
        import torch

        ids = self.tokenizer(batch["prompt"].to_pylist())["input_ids"]
        order = np.argsort([-len(each) for each in ids], kind="stable")
        texts = np.empty(len(batch), dtype=object)
        with torch.inference_mode():
            for start in range(0, len(order), self.prompts):
                rows = order[start : start + self.prompts]
                texts[rows] = self.go_on([ids[row] for row in rows])
        return pa.table({KEY: batch[KEY], "generated_text": texts.tolist()})

    def go_on(self, prompts: list[list[int]]) -> list[str]:
        """The new texts of some prompts of like length."""
        inputs = self.tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
        found = self.model.generate(
            **inputs,
            max_new_tokens=MODEL.num_new_tokens,
            do_sample=False,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        new = found[:, inputs["input_ids"].shape[1] :]
        return list(self.tokenizer.batch_decode(new, skip_special_tokens=True))


if __name__ == "__main__":
    knobs = {"batch_size": 1_024, "prompts": 64, "block_a_batch": 1, "pool": 2, "threads": 1}
    map_rows(arguments(**knobs), Writer, "prompts")
