"""Classification of photographs by a ViT-base on a GPU; decoding and resizing on the CPUs."""

from pathlib import Path

from tests.benchmarks.workloads import images, pictures
from tests.benchmarks.workloads.workload import Size, Target

KEY = "path"
SIZES: dict[Size, int] = {"whole": 160_000, "small": 20_000, "tiny": 40}
TARGETS: dict[str, tuple[Target, ...]] = {"floor": (Target(0.9),)}
CLASSES = 1_000
make_inputs = pictures.make_inputs
compare = pictures.compare_labels
spec = images.spec


def make_weights(folder: Path, seed: int) -> None:
    """Random ones, large enough for pictures to differ."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    torch.manual_seed(seed)
    config = ViTConfig(
        initializer_range=0.06,
        id2label=pictures.names(CLASSES),
        label2id={name: number for number, name in pictures.names(CLASSES).items()},
    )
    ViTForImageClassification(config).eval().save_pretrained(folder)
    ViTImageProcessor(**pictures.PROCESSOR).save_pretrained(folder)
