"""Classification of photographs by a small Vision Transformer: preprocessing takes most time."""

from pathlib import Path
from typing import Any

from tests.benchmarks.workloads import pictures
from tests.benchmarks.workloads.workload import Size, Target

KEY = "path"
SIZES: dict[Size, int] = {"whole": 44_000, "small": 2_000, "tiny": 40}
TARGETS: dict[str, tuple[Target, ...]] = {
    "guide": (Target(3.0),),
    "plain": (Target(0.98), Target(0.95, "whole")),
    "floor": (Target(0.9), Target(0.85, "whole")),
}
CLASSES = 100
make_inputs = pictures.make_inputs
compare = pictures.compare_labels


def make_weights(folder: Path, seed: int) -> None:
    """Random ones, large enough for pictures to differ."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    torch.manual_seed(seed)
    config = ViTConfig(
        image_size=224,
        patch_size=32,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        initializer_range=0.1,
        id2label=pictures.names(CLASSES),
        label2id={name: number for number, name in pictures.names(CLASSES).items()},
    )
    ViTForImageClassification(config).eval().save_pretrained(folder)
    ViTImageProcessor(**pictures.PROCESSOR).save_pretrained(folder)


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run, with nothing set."""
    return {
        "name": "images",
        "source": {"kind": "images", "path": str(inputs)},
        "model": {
            "kind": "huggingface",
            "task": "image-classification",
            "name_or_path": str(weights),
        },
        "sink": {"kind": "parquet", "path": str(output)},
    }
