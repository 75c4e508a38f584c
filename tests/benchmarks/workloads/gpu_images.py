"""Classification of photographs by a ViT-large on a GPU; decoding and resizing on the CPUs.

Of a ViT-base a fast GPU does more than sixteen cores can decode.
"""

from pathlib import Path

from tests.benchmarks.workloads import images, pictures
from tests.benchmarks.workloads.workload import Size, Target

KEY = "path"
SIZES: dict[Size, int] = {"whole": 180_000, "small": 30_000, "tiny": 40}
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
        hidden_size=1_024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4_096,
        initializer_range=0.06,
        id2label=pictures.names(CLASSES),
        label2id={name: number for number, name in pictures.names(CLASSES).items()},
    )
    ViTForImageClassification(config).eval().save_pretrained(folder)
    ViTImageProcessor(**pictures.PROCESSOR).save_pretrained(folder)
