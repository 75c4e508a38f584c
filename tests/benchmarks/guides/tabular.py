"""Ray's guide for models from Ray Train: frames of pandas through an actor pool of two."""

import os
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.clock import Clock
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.tabular import FEATURES, KEY


class XGBoostPredictor:
    """The guide's class: loads a checkpoint, makes a DMatrix of each frame."""

    def __init__(self, checkpoint: str, clocks: str) -> None:
        from ray.train import Checkpoint
        from ray.train.xgboost import RayTrainReportCallback

        self.model = RayTrainReportCallback.get_model(Checkpoint.from_directory(checkpoint))
        self.clock = Clock(clocks)

    def __call__(self, data: pd.DataFrame) -> dict[str, np.ndarray]:
        return self.clock.timed(self.predict, data, len(data))

    def predict(self, data: pd.DataFrame) -> dict[str, Any]:
        """Predictions, and the ride that each is of."""
        import xgboost

        rows = xgboost.DMatrix(data[FEATURES])
        return {KEY: data[KEY].to_numpy(), "prediction": self.model.predict(rows)}


def main(given: Arguments) -> None:
    """Read everything, drop the target, predict, write."""
    import ray

    # The pool would hold both of two cores, and listing files wait for one for ever.
    ray.init(num_cpus=(os.cpu_count() or 1) + 1)
    rides = ray.data.read_parquet(str(given.inputs)).drop_columns(["total_amount"])
    predictions = rides.map_batches(
        XGBoostPredictor,
        compute=ray.data.ActorPoolStrategy(size=2),
        batch_format="pandas",
        fn_constructor_kwargs={"checkpoint": str(given.weights), "clocks": str(given.clocks)},
    )
    predictions.write_parquet(str(given.output))
    given.finish()


if __name__ == "__main__":
    main(arguments())
