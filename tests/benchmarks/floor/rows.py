"""Texts in memory through a model of Hugging Face's: what the floors for texts share."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.kinds.models.huggingface import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tests.benchmarks.clock import Clock
from tests.benchmarks.script import Arguments


def predict_files(
    model: HuggingFaceModel, columns: list[str], files: list[Path], given: Arguments
) -> None:
    """Tokenise all rows, then predict, which alone is timed, then write the columns."""
    predict = model.predictor(Placement())
    read = pa.concat_tables(pq.read_table(file) for file in files)
    rows = model.preprocessor()(read.append_column(ROW, pa.array(np.arange(len(read)))))
    made = Clock(given.clocks).timed(predict, rows, len(rows))
    pq.write_table(made.select(columns), given.output / files[0].name)
