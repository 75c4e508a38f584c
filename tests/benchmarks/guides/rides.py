"""Ray's guide for Ray Core: a task a file, which reads it whole, as a frame."""

import uuid
from pathlib import Path
from typing import Any

from tests.benchmarks.clock import Clock
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.rides import KEY, load_model


def make_prediction(model: Any, shard: Path, output: Path, clocks: Path) -> int:
    """Predict for one file; write where the guide leaves a gap for it."""
    import pyarrow.parquet as pq

    frame = pq.read_table(shard).to_pandas()
    result = Clock(clocks).timed(model, frame, len(frame))
    frame[[KEY]].join(result).to_parquet(output / f"{uuid.uuid4().hex}.parquet")
    return len(result)


def main(given: Arguments) -> None:
    """Put the model into the object store, start all tasks, wait."""
    import ray

    ray.init()
    given.output.mkdir(exist_ok=True)
    model = ray.put(load_model())
    task = ray.remote(make_prediction)
    files = sorted(given.inputs.iterdir())
    ray.get([task.remote(model, file, given.output, given.clocks) for file in files])
    given.finish()


if __name__ == "__main__":
    main(arguments())
