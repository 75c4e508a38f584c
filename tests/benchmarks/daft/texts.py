"""Daft, native or on Ray: the same model code as ours."""

import numpy as np
import pyarrow as pa

from tasks.kinds.models.huggingface import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tests.benchmarks.clock import Clock
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.texts import KEY

WIDTH = 384


def main(given: Arguments) -> None:
    """Read, embed, write."""
    import daft

    if given.knobs["ray"]:
        daft.set_runner_ray()
    else:
        daft.set_runner_native()

    @daft.cls(max_concurrency=given.knobs["pool"], use_process=bool(given.knobs["processes"]))
    class Embedder:
        def __init__(self, weights: str, threads: int, clocks: str) -> None:
            model = HuggingFaceModel(task="feature-extraction", name_or_path=weights)
            self.tokenise = model.preprocessor()
            self.predict = model.predictor(Placement(num_threads=threads))
            self.clock = Clock(clocks)

        @daft.method.batch(
            return_dtype=daft.DataType.fixed_size_list(daft.DataType.float32(), WIDTH),
            batch_size=given.knobs["batch_size"],
        )
        def embed(self, texts: daft.Series) -> pa.Array:
            return self.clock.timed(self.run, texts, len(texts))

        def run(self, texts: daft.Series) -> pa.Array:
            rows = pa.table({ROW: np.arange(len(texts)), "text": texts.to_arrow()})
            return self.predict(self.tokenise(rows))["embedding"].combine_chunks()

    embedder = Embedder(str(given.weights), given.knobs["threads"], str(given.clocks))
    texts = daft.read_parquet(f"{given.inputs}/*.parquet")
    made = texts.select(KEY, embedder.embed(daft.col("text")).alias("embedding"))
    made.write_parquet(str(given.output))
    given.finish()


if __name__ == "__main__":
    main(arguments(ray=0, pool=2, processes=1, threads=1, batch_size=2_048))
