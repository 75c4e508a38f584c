"""Plain Ray Data over image files, as well as we can, with our own decoding, resizing and model.

So nothing differs but the script: in one stage, where each actor does it all, or in two.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tasks.kinds.models.model import Placement
from tasks.spec_file import parse_spec
from tests.benchmarks.clock import Clock
from tests.benchmarks.contenders import workload_named
from tests.benchmarks.script import Arguments

Function = Callable[[pa.Table], pa.Table]
GRID = {"batch_size": [32, 128], "one_stage": [0, 1], "pool": [1, 2], "threads": [1, 2]}
DEFAULTS = {"batch_size": 64, "one_stage": 1, "pool": 2, "threads": 1}


def model_of(workload: str, given: Arguments) -> Any:
    """The model of our own spec."""
    spec = workload_named(workload).spec(given.inputs, given.weights, given.output)
    return parse_spec(spec).model


def preparing(model: Any, threads: int = 1) -> Function:
    """Files to what the model reads."""
    prepare: Function = model.preprocessor(threads)

    def run(files: pa.Table) -> pa.Table:
        return prepare(files.rename_columns({"bytes": "image"})).drop_columns(["image"])

    return run


class Prepare:
    """The first of two stages; the function is made where it runs."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.run: Function | None = None

    def __call__(self, files: pa.Table) -> pa.Table:
        self.run = self.run or preparing(self.model)
        return self.run(files)


class Predict:
    """The model, and what is before it where there is but one stage."""

    def __init__(self, model: Any, threads: int, one_stage: bool, clocks: str) -> None:
        self.prepare = preparing(model, threads) if one_stage else None
        self.predict = model.predictor(Placement("cpu", threads))
        self.clock = Clock(clocks)

    def __call__(self, rows: pa.Table) -> pa.Table:
        return self.clock.timed(self.run, rows, len(rows))

    def run(self, rows: pa.Table) -> pa.Table:
        """Predictions and paths."""
        made: pa.Table = self.predict(self.prepare(rows) if self.prepare else rows)
        return made


def run(given: Arguments, workload: str) -> None:
    """Read, prepare, predict, write."""
    import ray

    knobs = given.knobs
    ray.init(include_dashboard=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    model = model_of(workload, given)
    rows = ray.data.read_binary_files(str(given.inputs), include_paths=True)
    batches: dict[str, Any] = {"batch_format": "pyarrow", "batch_size": knobs["batch_size"]}
    if not knobs["one_stage"]:
        rows = rows.map_batches(Prepare(model).__call__, num_cpus=1, **batches)
    predictions = rows.map_batches(
        Predict,
        fn_constructor_args=(
            model,
            knobs["threads"],
            bool(knobs["one_stage"]),
            str(given.clocks),
        ),
        compute=ray.data.ActorPoolStrategy(size=knobs["pool"]),
        # Threads are what the cores are shared by; an actor that asks for all lets nothing read.
        num_cpus=0.5,
        **batches,
    )
    predictions.write_parquet(str(given.output))
    given.finish()
