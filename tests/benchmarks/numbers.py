"""How far what the kinds calculate is from doing the same plainly: one row at a time, in float32.

Models are small and their weights random, so figures show the size of a difference, not what it
does to a trained model's answers.
"""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from tasks.kinds.columns import column_to_numpy
from tasks.kinds.images import decode_jpeg
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.plain_resize import PlainResize
from tasks.kinds.models.model import DType, Placement
from tasks.kinds.models.torch_threads import torch_threads
from tests.benchmarks import random_models
from tests.benchmarks.random_models import Sizes

SIZES = replace(Sizes.base(), hidden=192, layers=4, heads=3, image_size=96, vocabulary=1_000)
PICTURES, TEXTS, LONGEST = 4, 16, 64
HALVES: tuple[DType, ...] = ("bfloat16", "float16")
MODELS: dict[str, Callable[[Path], None]] = {
    "ViT": lambda folder: random_models.save_vit(folder, SIZES),
    "ResNet-50": lambda folder: random_models.save_resnet(folder, SIZES),
    "BERT": lambda folder: random_models.save_bert(folder, SIZES),
}


def measure(folder: Path) -> list[str]:
    """Each thing that could differ, by how much it does."""
    for name, save in MODELS.items():
        save(folder / name)
    with torch_threads(1):
        found = [*decoding(), *resizing(folder), *batching(folder), *halves(folder)]
    lines = [f"| {what} | {beside} | {difference} |" for what, beside, difference in found]
    return [
        "Largest differences; of embeddings as a share of their largest value. Random weights, on "
        "a CPU.",
        "",
        "| what | beside | largest difference |",
        "| --- | --- | --- |",
        *lines,
    ]


def decoding() -> list[tuple[str, str, str]]:
    """JPEG files, of both ways to keep colours."""
    worst = 0
    for number, picture in enumerate(pictures()):
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=90, subsampling=2 * (number % 2))
        plain = np.asarray(Image.open(file)).astype(int)
        worst = max(worst, int(np.abs(decode_jpeg(file.getvalue()) - plain).max()))
    return [("JPEG by simplejpeg", "Pillow", f"{worst} of 255 grey levels")]


def resizing(folder: Path) -> list[tuple[str, str, str]]:
    """Bytes resized by torch, as the checkpoint's own processor does with Pillow."""
    model = kind(folder / "ViT")
    processor = model.checkpoint.image_processor()
    plain = PlainResize.of(processor)
    assert plain is not None
    ours = [plain.resize(each) for each in pictures()]
    options = {"do_rescale": False, "do_normalize": False, "return_tensors": "np"}
    theirs = [
        processor(each, **options)["pixel_values"][0].transpose(1, 2, 0) for each in pictures()
    ]
    worst = max(np.abs(a.astype(int) - b).max() for a, b in zip(ours, theirs, strict=True))
    of_ours, of_theirs = (
        embedded(model, pixel_rows([np.round(each).astype(np.uint8) for each in images]))
        for images in (ours, theirs)
    )
    what, beside = "resizing of images", f"the checkpoint's {type(processor).__name__}"
    return [
        (what, beside, f"{worst:.0f} of 255 grey levels"),
        (f"{what}, ViT embeddings", beside, share(of_ours, of_theirs)),
    ]


def batching(folder: Path) -> list[tuple[str, str, str]]:
    """Rows together, texts sorted by length and padded."""
    found = []
    for name in MODELS:
        model, rows = kind(folder / name), rows_for(name)
        alone = [embedded(model, rows.slice(at, 1)) for at in range(len(rows))]
        difference = share(embedded(model, rows), np.concatenate(alone))
        found.append((f"batches, {name} embeddings", "each row alone", difference))
    return found


def halves(folder: Path) -> list[tuple[str, str, str]]:
    """Half the precision: the default on GPUs, a choice elsewhere."""
    found = []
    for name in MODELS:
        model, rows = kind(folder / name), rows_for(name)
        whole = embedded(model, rows)
        found += [
            (f"{dtype}, {name} embeddings", "float32", share(embedded(model, rows, dtype), whole))
            for dtype in HALVES
        ]
    return found


def kind(folder: Path) -> HuggingFaceModel:
    """The model as the spec has it."""
    is_text = folder.name == "BERT"
    task: Any = "feature-extraction" if is_text else "image-feature-extraction"
    return HuggingFaceModel(task=task, name_or_path=str(folder))


def embedded(model: HuggingFaceModel, rows: pa.Table, dtype: DType = "auto") -> np.ndarray:
    """(rows, width) of prepared rows."""
    predicted = model.predictor(Placement(dtype=dtype))(rows)
    return np.asarray(column_to_numpy(predicted["embedding"]))


def rows_for(name: str) -> pa.Table:
    """Prepared rows."""
    if name == "BERT":
        return random_models.token_rows(TEXTS, LONGEST, SIZES.vocabulary)
    cropped = [each[: SIZES.image_size, : SIZES.image_size] for each in pictures()]
    return pixel_rows(cropped)


def pixel_rows(images: list[np.ndarray]) -> pa.Table:
    """Images of the model's size as the preprocessing leaves them."""
    flat = pa.array(np.concatenate([each.ravel() for each in images]))
    pixels = pa.FixedSizeListArray.from_arrays(flat, images[0].size)
    return pa.table({"__row": np.arange(len(images)), "__pixels": pixels})


def pictures() -> list[np.ndarray]:
    """Smooth pictures with some noise, larger than models take them."""
    random = np.random.default_rng(0)
    made = []
    for number in range(PICTURES):
        small = random.integers(0, 256, (12, 12, 3), dtype=np.uint8)
        size = (320 + 17 * number, 260 + 23 * number)
        smooth = np.asarray(Image.fromarray(small).resize(size, Image.Resampling.BICUBIC))
        noisy = smooth + random.normal(0, 8, smooth.shape)
        made.append(noisy.clip(0, 255).astype(np.uint8))
    return made


def share(found: np.ndarray, expected: np.ndarray) -> str:
    """Largest difference, of the largest value."""
    return f"{np.abs(found - expected).max() / np.abs(expected).max():.0e}"
