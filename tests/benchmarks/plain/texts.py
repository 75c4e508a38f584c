"""Plain Ray Data, as well as we can: texts tokenised once, sorted by length, few tokens a batch."""

import numpy as np
import pyarrow as pa

from tests.benchmarks.clock import Clock
from tests.benchmarks.plain.rows import map_rows
from tests.benchmarks.script import arguments
from tests.benchmarks.workloads.texts import KEY, LONGEST

GRID = {
    "batch_size": [512, 2_048],
    "tokens": [1_024, 2_048],
    "block_a_batch": [0, 1],
    "pool": [1, 2],
    "threads": [1, 2],
}


class Embedder:
    """The model over Arrow batches."""

    def __init__(self, weights: str, tokens: int, threads: int, clocks: str) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        torch.set_num_threads(threads)
        self.tokens, self.clock = tokens, Clock(clocks)
        self.tokenizer = AutoTokenizer.from_pretrained(weights)
        self.model = AutoModel.from_pretrained(weights).eval()

    def __call__(self, batch: pa.Table) -> pa.Table:
        return self.clock.timed(self.embed, batch, len(batch))

    def embed(self, batch: pa.Table) -> pa.Table:
        """Embeddings, and the text that each is of."""
        import torch

        ids = self.tokenizer(batch["text"].to_pylist(), truncation=True, max_length=LONGEST)
        order = sorted(range(len(batch)), key=lambda row: -len(ids["input_ids"][row]))
        vectors = np.empty((len(batch), self.model.config.hidden_size), np.float32)
        with torch.inference_mode():
            while order:
                count = max(1, self.tokens // len(ids["input_ids"][order[0]]))
                rows, order = order[:count], order[count:]
                vectors[rows] = self.forward([ids["input_ids"][row] for row in rows])
        flat = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
        return pa.table({KEY: batch[KEY], "embedding": flat})

    def forward(self, texts: list[list[int]]) -> np.ndarray:
        """Unit vectors of some texts of like length."""
        import torch

        inputs = self.tokenizer.pad({"input_ids": texts}, return_tensors="pt")
        tokens = self.model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1)
        means = (tokens * mask).sum(1) / mask.sum(1)
        return np.asarray(torch.nn.functional.normalize(means).numpy())


if __name__ == "__main__":
    knobs = {"batch_size": 2_048, "tokens": 2_048, "block_a_batch": 1, "pool": 2, "threads": 1}
    map_rows(arguments(**knobs), Embedder, "tokens")
