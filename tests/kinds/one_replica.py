"""A process that loads a text embedder, uses it once and holds it until its stdin ends.

`python -m tests.kinds.one_replica MODEL OTHER`, two folders: it says how many bytes it has taken
for itself since it began with the model. The other model is used before, since what torch takes
when it is first used is no model's.
"""

import gc
import sys
from typing import Any

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tests.kinds.memory import memory_of
from tests.kinds.tiny_models import rows_of


def used(folder: str) -> Any:
    """The predictor of the model in a folder, which has seen a batch."""
    model = HuggingFaceModel(task="feature-extraction", name_or_path=folder)
    predictor = model.predictor(Placement())
    predictor(model.preprocessor()(rows_of("text", ["a b", "c"])))
    gc.collect()
    return predictor


if __name__ == "__main__":
    used(sys.argv[2])
    before = memory_of("self", sys.argv[1]).own
    predictor = used(sys.argv[1])
    print(memory_of("self", sys.argv[1]).own - before, flush=True)
    sys.stdin.read()
