"""One process a core, tokens in memory, the model only, all prompts of a core sorted at once."""

from pathlib import Path

from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.huggingface import HuggingFaceModel
from tests.benchmarks.floor.cores import on_each_core
from tests.benchmarks.floor.rows import predict_files
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.generation import KEY, MODEL


def write_files(files: list[Path], given: Arguments) -> None:
    """Go on from all prompts."""
    model = HuggingFaceModel(
        task="text-generation",
        name_or_path=str(given.weights),
        options=HuggingFaceOptions(max_new_tokens=MODEL.num_new_tokens),
    )
    predict_files(model, [KEY, "generated_text"], files, given)


if __name__ == "__main__":
    on_each_core(write_files, arguments())
