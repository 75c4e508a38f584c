"""One process a core, matrices in memory, the trees only."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.clock import Clock
from tests.benchmarks.floor.cores import on_each_core
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.tabular import FEATURES, KEY


def predict_files(files: list[Path], given: Arguments) -> None:
    """Load the files' numbers, then predict, then write."""
    import xgboost

    model = xgboost.Booster(model_file=given.weights / "model.ubj")
    model.set_param({"nthread": 1})
    clock, loaded = Clock(given.clocks), []
    for file in files:
        rides = pq.read_table(file, columns=[KEY, *FEATURES])
        numbers = np.stack([rides[name].to_numpy() for name in FEATURES], axis=1, dtype=np.float32)
        loaded.append((file.name, rides[KEY], np.ascontiguousarray(numbers)))
    made = [
        (name, keys, clock.timed(model.inplace_predict, numbers, len(numbers)))
        for name, keys, numbers in loaded
    ]
    for name, keys, values in made:
        pq.write_table(pa.table({KEY: keys, "prediction": values}), given.output / name)


if __name__ == "__main__":
    on_each_core(predict_files, arguments())
