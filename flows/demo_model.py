"""Trains the demo's model: a Vision Transformer of two layers, in seconds, on a CPU."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.checkpoint import quiet
from tasks.kinds.models.model import Placement
from tasks.kinds.models.torch_threads import torch_threads
from tasks.protocol.batch import ROW

SEED = 0
NUM_THREADS = 1
"""For a model this small a second thread gains little and, on a busy machine, loses minutes."""
IMAGE_SIZE = 16
CLASSES = [str(digit) for digit in range(10)]


@dataclass(frozen=True)
class Training:
    """How long, on how much."""

    num_epochs: int = 20
    batch_size: int = 64
    num_images: int | None = None
    """Take only so many of the training images; None: all."""
    learning_rate: float = 3e-3


@dataclass(frozen=True)
class Learned:
    """What came of it."""

    accuracy: float
    """Share of held-out images whose class the saved model finds."""
    seconds: float


def train(images: list[Path], held_out: list[Path], folder: Path, training: Training) -> Learned:
    """Train on images in folders named by class, save to a folder, measure on the others.

    The pixels come from the preprocessing that the saved model will be used with.
    """
    started = time.perf_counter()
    import torch

    model = untrained(folder)
    kind = HuggingFaceModel(task="image-classification", name_or_path=str(folder))
    rows = kind.preprocessor()(encoded(images))
    with torch_threads(NUM_THREADS), torch.random.fork_rng(devices=[]):
        fit(model, kind, rows, [int(path.parent.name) for path in images], training)
    save(model, folder)
    seconds = time.perf_counter() - started
    return Learned(accuracy_of(kind, held_out), round(seconds, 2))


def untrained(folder: Path) -> Any:
    """A model with random weights; its configuration and image processor are in the folder."""
    import torch

    with quiet():  # its image processor mentions torchvision as soon as it is imported
        from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    config = ViTConfig(
        image_size=IMAGE_SIZE,
        patch_size=4,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        initializer_range=0.06,  # learns in half the epochs that the default 0.02 takes
        id2label=dict(enumerate(CLASSES)),
        label2id={label: number for number, label in enumerate(CLASSES)},
    )
    config.save_pretrained(folder)
    size = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    ViTImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return ViTForImageClassification(config)


def encoded(images: list[Path]) -> pa.Table:
    """Files as rows."""
    content = [path.read_bytes() for path in images]
    return pa.table({ROW: pa.array(range(len(images)), pa.int64()), "image": content})


def fit(
    model: Any, kind: HuggingFaceModel, rows: pa.Table, labels: list[int], training: Training
) -> None:
    """Adjust the weights, epoch by epoch."""
    import torch

    from tasks.kinds.models.hf.image import ImageInputs

    torch.manual_seed(SEED)
    inputs = ImageInputs(kind.checkpoint, Placement(batch_size=len(rows)), torch.float32)
    ((_, batch),) = inputs.batches(rows)
    pixels, targets = batch["pixel_values"], torch.tensor(labels)
    steps = training.num_epochs * -(-len(rows) // training.batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, training.learning_rate, total_steps=steps
    )
    model.train()
    for _ in range(training.num_epochs):
        for chosen in torch.randperm(len(rows)).split(training.batch_size):
            logits = model(pixels[chosen]).logits
            loss = torch.nn.functional.cross_entropy(logits, targets[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def save(model: Any, folder: Path) -> None:
    """Write the weights beside what is there."""
    with quiet():
        model.eval().save_pretrained(folder)


def accuracy_of(kind: HuggingFaceModel, images: list[Path]) -> float:
    """Share of images for which the saved model gives the class that their folder is named by."""
    predict = kind.predictor(Placement(num_threads=NUM_THREADS, batch_size=256))
    found = predict(kind.preprocessor()(encoded(images)))["predicted_label"].to_pylist()
    return float(np.mean([a == path.parent.name for a, path in zip(found, images, strict=True)]))
