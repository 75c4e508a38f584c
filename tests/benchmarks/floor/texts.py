"""One process a core, tokens in memory, the model only, all texts of a core sorted at once."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.kinds.models.huggingface import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tests.benchmarks.clock import Clock
from tests.benchmarks.floor.cores import on_each_core
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.texts import KEY


def embed_files(files: list[Path], given: Arguments) -> None:
    """Tokenise all texts, then embed them, then write."""
    model = HuggingFaceModel(task="feature-extraction", name_or_path=str(given.weights))
    predict = model.predictor(Placement())
    texts = pa.concat_tables(pq.read_table(file) for file in files)
    rows = model.preprocessor()(texts.append_column(ROW, pa.array(np.arange(len(texts)))))
    made = Clock(given.clocks).timed(predict, rows, len(rows))
    pq.write_table(made.select([KEY, "embedding"]), given.output / files[0].name)


if __name__ == "__main__":
    on_each_core(embed_files, arguments())
