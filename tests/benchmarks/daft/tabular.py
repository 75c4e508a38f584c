"""Daft, native or on Ray: the same trees over Arrow batches."""

from typing import Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.clock import Clock
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.tabular import FEATURES, KEY


def trees_of(given: Arguments) -> Any:
    """The model over columns, where its options say."""
    import daft

    if given.knobs["ray"]:
        daft.set_runner_ray()
    else:
        daft.set_runner_native()

    @daft.cls(max_concurrency=given.knobs["pool"])
    class Trees:
        def __init__(self, weights: str, threads: int, clocks: str) -> None:
            import xgboost

            self.model = xgboost.Booster(model_file=f"{weights}/model.ubj")
            self.model.set_param({"nthread": threads})
            self.clock = Clock(clocks)

        @daft.method.batch(return_dtype=daft.DataType.float32())
        def predict(self, *columns: daft.Series) -> pa.Array:
            return pa.array(self.clock.timed(self.run, columns, len(columns[0])))

        def run(self, columns: tuple[daft.Series, ...]) -> np.ndarray:
            numbers = np.stack([each.to_arrow().to_numpy() for each in columns], 1, dtype="f4")
            return self.model.inplace_predict(numbers)

    return Trees(str(given.weights), given.knobs["threads"], str(given.clocks))


def main(given: Arguments) -> None:
    """Read what is needed, predict, write."""
    import daft

    trees = trees_of(given)
    rides = daft.read_parquet(f"{given.inputs}/*.parquet")
    made = trees.predict(*[daft.col(name) for name in FEATURES])
    rides.select(KEY, made.alias("prediction")).write_parquet(str(given.output))
    given.finish()


if __name__ == "__main__":
    main(arguments(ray=0, pool=1, threads=2))
