"""What compiling a model gains on a CPU, what it costs first, and what it changes."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from tasks.kinds.columns import column_to_numpy
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.runtimes.runtime_used import Runtime
from tasks.kinds.models.torch_threads import torch_threads
from tests.benchmarks import random_models
from tests.benchmarks.random_models import Sizes

Task = Literal["image-classification", "image-feature-extraction"]
IMAGES, ROUNDS = 32, 3
BATCH = 8
"""What the kinds take on CPUs."""
SMALL = replace(Sizes.base(), hidden=384, heads=6, image_size=128)
MODELS: dict[str, Callable[[Path], None]] = {
    "ResNet-50": lambda folder: random_models.save_resnet(folder, SMALL),
    "ViT-small": lambda folder: random_models.save_vit(folder, SMALL),
}


@dataclass
class Contender:
    """One model on one runtime."""

    predict: Function
    placement: Placement
    warm_up: float = 0.0
    """CPU seconds of the first call, less those of another one: compiling and comparing."""

    def seconds(self, rows: pa.Table) -> float:
        """CPU seconds of a call, child processes included."""
        before = cpu_seconds()
        self.predict(rows)
        return cpu_seconds() - before


def measure(folder: Path) -> list[str]:
    """All runtimes in turn, one thread, on both models."""
    side = SMALL.image_size
    lines = [
        f"Embeddings of {IMAGES} images of {side} x {side}, {BATCH} at a time, random weights, one "
        "thread, through the Hugging Face kind from pixels on; median of "
        f"{ROUNDS} rounds in which the runtimes take turns. CPU seconds, so that other work on the "
        "machine matters less. Difference: the largest over all images, as a share of the largest "
        "value of an embedding. Warm-up: the first call's CPU seconds beyond another one's.",
        "",
        "| model | runtime | CPU ms an image | times eager | difference | warm-up, CPU s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, save in MODELS.items():
        save(folder / name)
        lines += measured(name, folder / name)
    return lines


def measured(name: str, folder: Path) -> list[str]:
    """One model's lines."""
    rows = pixel_rows()
    with torch_threads(1):
        contenders = {runtime: begun(folder, runtime, rows) for runtime in get_args(Runtime)}
        spent: dict[Runtime, list[float]] = {runtime: [] for runtime in contenders}
        for _ in range(ROUNDS):
            for runtime, contender in contenders.items():
                spent[runtime].append(contender.seconds(rows))
        found = {
            each: embeddings(contender.predict(rows)) for each, contender in contenders.items()
        }
    medians = {runtime: statistics.median(each) for runtime, each in spent.items()}
    eager, largest = found["eager"], np.abs(found["eager"]).max()
    return [
        f"| {name} | {runtime} | {1000 * medians[runtime] / IMAGES:.1f} | "
        f"{medians['eager'] / medians[runtime]:.2f} | "
        f"{np.abs(found[runtime] - eager).max() / largest:.0e} | "
        f"{max(0.0, contender.warm_up - medians[runtime]):.0f} |"
        for runtime, contender in contenders.items()
    ]


def begun(folder: Path, runtime: Runtime, rows: pa.Table) -> Contender:
    """A model that has been compiled, and is in truth on its runtime."""
    task: Task = "image-feature-extraction"
    model = HuggingFaceModel(task=task, name_or_path=str(folder), runtime=runtime)
    model.check()
    contender = Contender(model.predictor(placement := Placement()), placement)
    contender.warm_up = contender.seconds(rows)
    (told,) = placement.runtimes.told
    assert told.used == runtime, told.problem
    return contender


def pixel_rows() -> pa.Table:
    """Images as the preprocessing leaves them."""
    shape = (IMAGES, 3 * SMALL.image_size**2)
    flat = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8).ravel()
    pixels = pa.FixedSizeListArray.from_arrays(pa.array(flat), shape[1])
    return pa.table({"__row": np.arange(IMAGES), "__pixels": pixels})


def embeddings(predicted: pa.Table) -> np.ndarray:
    """(rows, width)."""
    return np.asarray(column_to_numpy(predicted["embedding"]))


def cpu_seconds() -> float:
    """Of this process and of its children that have ended, such as compilers."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system
