"""Text generation as Ray's guides do it: a pipeline that is handed lists and takes one by one."""

import numpy as np

from tests.benchmarks.clock import Clock
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.generation import KEY, MODEL

Batch = dict[str, np.ndarray]


class HuggingFacePredictor:
    """The guide's class: a pipeline over each batch."""

    def __init__(self, model: str, clocks: str) -> None:
        from transformers import pipeline

        self.model = pipeline("text-generation", model=model)
        self.clock = Clock(clocks)

    def __call__(self, batch: Batch) -> Batch:
        return self.clock.timed(self.predict, batch, len(batch["prompt"]))

    def predict(self, batch: Batch) -> Batch:
        """The batch with its texts."""
        predictions = self.model(
            list(batch["prompt"]),
            max_new_tokens=MODEL.num_new_tokens,
            num_return_sequences=1,
            do_sample=False,
            return_full_text=False,
        )
        texts = [sequences[0]["generated_text"].strip() for sequences in predictions]
        batch["generated_text"] = np.array(texts)
        return batch


def main(given: Arguments) -> None:
    """Read, go on from each prompt in a pool of actors, drop the prompts, write."""
    import ray

    pool = given.knobs["pool"]
    # Prompts are so small that Ray reads them as one block, for one of the actors, and listens to
    # no override_num_blocks.
    prompts = ray.data.read_parquet(str(given.inputs)).repartition(4 * pool)
    texts = prompts.map_batches(
        HuggingFacePredictor,
        fn_constructor_kwargs={"model": str(given.weights), "clocks": str(given.clocks)},
        compute=ray.data.ActorPoolStrategy(size=pool),
        # Half of what the guides leave it at: on two cores two actors would let nothing read.
        num_cpus=0.5,
    )
    texts.select_columns([KEY, "generated_text"]).write_parquet(str(given.output))
    given.finish()


if __name__ == "__main__":
    main(arguments(pool=2))
