"""Plain Ray Data, as well as we can: projected columns, Arrow batches, trees in place."""

from typing import Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.clock import Clock
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.tabular import FEATURES, KEY

GRID = {
    "batch_size": [131_072, 524_288],
    "block_mib": [32, 128],
    "pool": [1, 2],
    "threads": [1, 2],
}


class Trees:
    """The model over Arrow batches."""

    KEPT: tuple[str, ...] = (KEY,)

    def __init__(self, weights: str, threads: int, clocks: str) -> None:
        import xgboost

        self.model = xgboost.Booster(model_file=f"{weights}/model.ubj")
        self.model.set_param({"nthread": threads})
        self.clock = Clock(clocks)

    def __call__(self, batch: pa.Table) -> pa.Table:
        return self.clock.timed(self.predict, batch, len(batch))

    def predict(self, batch: pa.Table) -> pa.Table:
        """Predictions, and what is kept beside each."""
        numbers = np.empty((len(batch), len(FEATURES)), np.float32)
        for at, name in enumerate(FEATURES):
            numbers[:, at] = batch[name].to_numpy()
        made = {"prediction": self.model.inplace_predict(numbers)}
        return pa.table({**{name: batch[name] for name in self.KEPT}, **made})


def read(given: Arguments, columns: list[str]) -> Any:
    """Begin Ray, and read some columns."""
    import ray

    ray.init(include_dashboard=False, logging_level="ERROR")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = given.knobs["block_mib"] << 20
    return ray.data.read_parquet(str(given.inputs), columns=columns)


def predicted(rides: Any, trees: type[Trees], given: Arguments) -> Any:
    """What a pool of trees says of rides."""
    import ray

    return rides.map_batches(
        trees,
        compute=ray.data.ActorPoolStrategy(size=given.knobs["pool"]),
        batch_format="pyarrow",
        batch_size=given.knobs["batch_size"],
        zero_copy_batch=True,
        # Threads are what the cores are shared by; an actor that asks for all lets nothing read.
        num_cpus=0.5,
        fn_constructor_args=(str(given.weights), given.knobs["threads"], str(given.clocks)),
    )


def main(given: Arguments) -> None:
    """Read what is needed, predict, write."""
    rides = read(given, [KEY, *FEATURES])
    predicted(rides, Trees, given).write_parquet(str(given.output))
    given.finish()


if __name__ == "__main__":
    main(arguments(batch_size=131_072, block_mib=128, pool=1, threads=1))
