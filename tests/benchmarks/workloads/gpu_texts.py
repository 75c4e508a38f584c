"""Embeddings of texts of very different lengths by a BERT-base on a GPU."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.benchmarks.random_models import Sizes, save_bert
from tests.benchmarks.workloads import texts
from tests.benchmarks.workloads.workload import Size, Target

KEY = texts.KEY
SIZES: dict[Size, int] = {"whole": 600_000, "small": 100_000, "tiny": 24}
TARGETS: dict[str, tuple[Target, ...]] = {"floor": (Target(0.9),)}
MODEL = Sizes.base()
TOLERANCE = 0.02
"""Of unit vectors in bfloat16, by what shares a batch."""
spec = texts.spec


def make_weights(folder: Path, seed: int) -> None:
    """Random ones."""
    import torch

    torch.manual_seed(seed)
    save_bert(folder, MODEL)


def make_inputs(folder: Path, size: int, seed: int) -> None:
    """As the CPUs' workload has them, of the words that this model knows."""
    texts.write_texts(folder, size, seed, [f"w{number}" for number in range(1, MODEL.vocabulary)])


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """The same vectors, up to rounding."""
    mine, other = (np.array(each["embedding"].to_pylist()) for each in (ours, theirs))
    np.testing.assert_allclose(other, mine, atol=TOLERANCE, rtol=0)
