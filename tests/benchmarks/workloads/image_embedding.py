"""Photographs as vectors, by the image half of a small CLIP."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.workloads import pictures
from tests.benchmarks.workloads.workload import Size, Target

KEY = "path"
SIZES: dict[Size, int] = {"whole": 20_000, "small": 100, "tiny": 20}
TARGETS: dict[str, tuple[Target, ...]] = {
    "daft": (Target(1.0, "whole"), Target(1 / 1.5, "whole", "small")),
    "daft_ray": (Target(1.0, "whole"), Target(1 / 1.5, "whole", "small")),
    "plain": (Target(0.98), Target(0.95, "whole")),
    "floor": (Target(0.9), Target(0.85, "whole")),
}
TOLERANCE = 1e-4
"""All have the same code; other batches change the last bits."""
make_inputs = pictures.make_inputs


def make_weights(folder: Path, seed: int) -> None:
    """Random ones."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel

    torch.manual_seed(seed)
    vision = {
        "image_size": 224,
        "patch_size": 32,
        "hidden_size": 192,
        "num_hidden_layers": 6,
        "num_attention_heads": 3,
        "intermediate_size": 768,
    }
    text = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = CLIPConfig(vision_config=vision, text_config=text, projection_dim=128)
    CLIPModel(config).eval().save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": 224}).save_pretrained(folder)


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run, with nothing set."""
    return {
        "name": "image-embedding",
        "source": {"kind": "images", "path": str(inputs)},
        "model": {
            "kind": "huggingface",
            "task": "image-feature-extraction",
            "name_or_path": str(weights),
        },
        "sink": {"kind": "parquet", "path": str(output)},
    }


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """Each picture's vector, and none that are alike."""
    mine, other = (np.stack(each["embedding"].to_pylist()) for each in (ours, theirs))
    largest = np.abs(mine).max()
    np.testing.assert_allclose(mine, other, rtol=0, atol=TOLERANCE * largest)
    assert np.abs(mine[0] - mine[1]).max() > 10 * TOLERANCE * largest
