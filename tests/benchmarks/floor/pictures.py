"""One process a core, files in memory, decoding, resizing and the model: nothing else.

On CPUs decoding and model want the same cores, so that it is their sum that binds.
"""

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.kinds.models.model import Placement
from tests.benchmarks.clock import Clock
from tests.benchmarks.plain.pictures import model_of, preparing
from tests.benchmarks.script import Arguments
from tests.benchmarks.workloads.pictures import parts

BATCH = 64


def predict_files(files: list[Path], model: Any, given: Arguments, name: str) -> None:
    """Load the files, then prepare and predict, then write."""
    prepare, predict = preparing(model), model.predictor(Placement("cpu", 1))
    clock = Clock(given.clocks)
    loaded = [
        pa.table({"path": [*map(str, some)], "bytes": [each.read_bytes() for each in some]})
        for some in (files[first : first + BATCH] for first in range(0, len(files), BATCH))
    ]
    made = [clock.timed(lambda rows: predict(prepare(rows)), rows, len(rows)) for rows in loaded]
    pq.write_table(pa.concat_tables(made), given.output / name)


def main(given: Arguments, workload: str) -> None:
    """Share the files out among the cores."""
    given.output.mkdir()
    model, cores = model_of(workload, given), os.cpu_count() or 1
    spawn = multiprocessing.get_context("spawn")
    processes = [
        spawn.Process(target=predict_files, args=(part, model, given, f"{number}.parquet"))
        for number, part in enumerate(parts(sorted(given.inputs.iterdir()), cores))
    ]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    given.finish()
