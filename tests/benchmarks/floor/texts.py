"""One process a core, tokens in memory, the model only, all texts of a core sorted at once."""

from pathlib import Path

from tasks.kinds.models.huggingface import HuggingFaceModel
from tests.benchmarks.floor.cores import on_each_core
from tests.benchmarks.floor.rows import predict_files
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.texts import KEY


def embed_files(files: list[Path], given: Arguments) -> None:
    """Embed all texts."""
    model = HuggingFaceModel(task="feature-extraction", name_or_path=str(given.weights))
    predict_files(model, [KEY, "embedding"], files, given)


if __name__ == "__main__":
    on_each_core(embed_files, arguments())
