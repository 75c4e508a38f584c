"""One process on the machine's GPU, or its CPU without one: rows in memory, the model only."""

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tests.benchmarks.clock import Clock
from tests.benchmarks.plain.pictures import model_of
from tests.benchmarks.script import Arguments


def predict_all(workload: str, rows: pa.Table, columns: Sequence[str], given: Arguments) -> None:
    """Prepare all rows, then predict, which alone is timed, then write the columns."""
    import torch

    device, cores = "cuda" if torch.cuda.is_available() else "cpu", os.cpu_count() or 1
    model = model_of(workload, given)
    prepare = model.preprocessor(cores)
    predict = model.predictor(Placement(device, 1 if device == "cuda" else cores))
    given.output.mkdir()
    rows = rows.append_column(ROW, pa.array(np.arange(len(rows))))
    size = model.rows_per_batch
    pieces = [prepare(rows.slice(first, size)) for first in range(0, len(rows), size)]
    predict(pieces[0].slice(0, 64))  # warms up
    clock = Clock(given.clocks)
    made = [clock.timed(predict, each, len(each)) for each in pieces]
    pq.write_table(pa.concat_tables(made).select(columns), given.output / "all.parquet")
    given.finish()
