"""One process a core, tokens in memory, the model only, all prompts of a core sorted at once."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.huggingface import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tests.benchmarks.clock import Clock
from tests.benchmarks.floor.cores import on_each_core
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.generation import KEY, MODEL


def write_files(files: list[Path], given: Arguments) -> None:
    """Tokenise all prompts, then go on from them, then write."""
    model = HuggingFaceModel(
        task="text-generation",
        name_or_path=str(given.weights),
        options=HuggingFaceOptions(max_new_tokens=MODEL.num_new_tokens),
    )
    predict = model.predictor(Placement())
    prompts = pa.concat_tables(pq.read_table(file) for file in files)
    rows = model.preprocessor()(prompts.append_column(ROW, pa.array(np.arange(len(prompts)))))
    made = Clock(given.clocks).timed(predict, rows, len(rows))
    pq.write_table(made.select([KEY, "generated_text"]), given.output / files[0].name)


if __name__ == "__main__":
    on_each_core(write_files, arguments())
