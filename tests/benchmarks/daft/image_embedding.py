"""Daft, native or on Ray: our decoding, resizing and model in a class of Daft's, over Arrow."""

import pyarrow as pa

from tasks.kinds.models.model import Placement
from tests.benchmarks.clock import Clock
from tests.benchmarks.plain.pictures import model_of, preparing
from tests.benchmarks.script import Arguments, arguments

WIDTH = 128


def main(given: Arguments) -> None:
    """Read, embed, write."""
    import daft

    if given.knobs["ray"]:
        daft.set_runner_ray()
    else:
        daft.set_runner_native()
    model = model_of("image_embedding", given)
    vectors = daft.DataType.fixed_size_list(daft.DataType.float32(), WIDTH)

    @daft.cls(max_concurrency=given.knobs["pool"])
    class Embed:
        def __init__(self, threads: int, clocks: str) -> None:
            self.prepare = preparing(model, threads)
            self.predict = model.predictor(Placement("cpu", threads))
            self.clock = Clock(clocks)

        @daft.method.batch(return_dtype=vectors, batch_size=given.knobs["batch_size"])
        def embed(self, files: daft.Series) -> pa.Array:
            made = self.clock.timed(self.run, files, len(files))
            return made["embedding"].combine_chunks()

        def run(self, files: daft.Series) -> pa.Table:
            return self.predict(self.prepare(pa.table({"bytes": files.to_arrow()})))

    embed = Embed(given.knobs["threads"], str(given.clocks))
    files = daft.from_glob_path(f"{given.inputs}/*.jpg").select("path")
    made = files.with_column("embedding", embed.embed(daft.col("path").download()))
    # Daft writes paths as URLs.
    paths = daft.col("path").replace("file://", "")
    made.select(paths.alias("path"), "embedding").write_parquet(str(given.output))
    given.finish()


if __name__ == "__main__":
    main(arguments(ray=0, pool=1, threads=2, batch_size=64))
