"""Embeddings as Ray's guides make them: batches of 64 as they come, padded to their longest."""

import numpy as np

from tests.benchmarks.clock import Clock
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.texts import KEY, LONGEST

Batch = dict[str, np.ndarray]


class EmbedTexts:
    """The guide's class: loads tokenizer and model once, and is called with each batch."""

    def __init__(self, model_id: str, device: str, clocks: str) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(model_id)
        self.model = AutoModel.from_pretrained(model_id).to(device)
        self.device, self.clock = device, Clock(clocks)

    def __call__(self, batch: Batch) -> Batch:
        return self.clock.timed(self.embed, batch, len(batch["text"]))

    def embed(self, batch: Batch) -> Batch:
        """The batch with its embeddings."""
        import torch

        inputs = self.tokenizer(
            list(batch["text"]),
            padding=True,
            truncation=True,
            max_length=LONGEST,
            return_tensors="pt",
        ).to(self.device)
        with torch.inference_mode():
            tokens = self.model(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(-1)
            means = (tokens * mask).sum(1) / mask.sum(1)
            batch["embedding"] = torch.nn.functional.normalize(means).cpu().numpy()
        return batch


def main(given: Arguments) -> None:
    """Read, embed in a pool of actors, drop the texts, write."""
    import ray

    texts = ray.data.read_parquet(str(given.inputs))
    embeddings = texts.map_batches(
        EmbedTexts,
        fn_constructor_kwargs={
            "model_id": str(given.weights),
            "device": "cpu",
            "clocks": str(given.clocks),
        },
        compute=ray.data.ActorPoolStrategy(size=given.knobs["pool"]),
        batch_size=64,
        # Half of what the guides leave it at: on two cores two actors would let nothing read.
        num_cpus=0.5,
    )
    embeddings.select_columns([KEY, "embedding"]).write_parquet(str(given.output))
    given.finish()


if __name__ == "__main__":
    main(arguments(pool=2))
