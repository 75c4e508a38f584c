"""Data for the demo and the tests: handwritten digits as images, and a small model trained here.

Nothing is downloaded: the digits come with scikit-learn, the model is trained in seconds.
"""

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from PIL import Image

from flows.demo_model import Training, train
from tasks.errors import InvalidSpec

TRAINING, HELD_OUT, MODEL = "training", "held-out", "model"
NUM_TRAINING = 1_000
SPLIT_SEED = 0
SCALE = 4
"""The digits are 8 x 8; people who open a file want to see something."""
COMPLETE = "demo.json"
"""Written last: a folder that has it is complete."""


@dataclass(frozen=True)
class DemoData:
    """What was written, and how good the model is."""

    folder: Path
    num_training: int
    num_held_out: int
    """Good images among the held-out ones."""
    num_broken: int
    """Broken files among them, to see them set aside."""
    held_out_accuracy: float
    training_seconds: float

    @property
    def held_out(self) -> Path:
        """Images by class, as in held-out/7/0123.png; the model has never seen them."""
        return self.folder / HELD_OUT

    @property
    def model(self) -> Path:
        """The model, in Hugging Face's format."""
        return self.folder / MODEL

    @property
    def spec(self) -> Path:
        """The run as a YAML file."""
        return self.folder / "digits.yaml"

    @property
    def predictions(self) -> Path:
        """Where the run puts its predictions."""
        return self.folder / "predictions"


def prepare_digits(folder: Path, training: Training | None = None) -> DemoData:
    """Write images, train the model, write the spec; a complete folder is used again.

    Args:
        folder: where to; made if need be.
        training: how long and on how many images; the default is the demo's.

    Raises:
        InvalidSpec: scikit-learn is not installed.
    """
    folder = Path(folder)
    training = training or Training()
    done = completed(folder, training)
    if done:
        return done
    (folder / COMPLETE).unlink(missing_ok=True)
    images, labels = load_digits()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(images))
    write_images(folder / TRAINING, images, labels, order[:NUM_TRAINING])
    held_out = write_images(folder / HELD_OUT, images, labels, order[NUM_TRAINING:])
    num_broken = write_broken(folder / HELD_OUT, held_out[0].read_bytes())
    learned = train(
        sorted((folder / TRAINING).glob("*/*.png"))[: training.num_images],
        held_out,
        folder / MODEL,
        training,
    )
    data = DemoData(
        folder, NUM_TRAINING, len(held_out), num_broken, learned.accuracy, learned.seconds
    )
    data.spec.write_text(yaml.safe_dump(spec_of(data), sort_keys=False))
    record = {"training": asdict(training), "data": {**asdict(data), "folder": None}}
    (folder / COMPLETE).write_text(json.dumps(record, indent=2))
    return data


def completed(folder: Path, training: Training) -> DemoData | None:
    """What an earlier call left, if it ran to its end in the same way and nothing is gone."""
    try:
        record = json.loads((folder / COMPLETE).read_text())
        data = DemoData(**{**record["data"], "folder": folder})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    held_out = len(list(data.held_out.glob("*/*.png")))
    whole = held_out == data.num_held_out + data.num_broken
    have = whole and data.spec.is_file() and (data.model / "model.safetensors").is_file()
    return data if have and record["training"] == asdict(training) else None


def load_digits() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """1,797 digits of 8 x 8 grey levels, and what they are.

    Raises:
        InvalidSpec: scikit-learn is not installed.
    """
    try:
        from sklearn import datasets
    except ImportError as error:
        message = "the demo needs scikit-learn: pip install 'prefect-ray-data[demo]'"
        raise InvalidSpec(message) from error
    digits = datasets.load_digits()
    return np.round(digits.images * 255 / 16).astype(np.uint8), digits.target


def write_images(
    folder: Path,
    images: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.int64],
    chosen: npt.NDArray[np.int64],
) -> list[Path]:
    """Some digits as PNG files in a folder for each class; a file's name is the digit's number."""
    files = []
    for number in sorted(chosen.tolist()):
        file = folder / str(labels[number]) / f"{number:04d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        larger = np.kron(images[number], np.ones((SCALE, SCALE), np.uint8))
        Image.fromarray(larger).save(file)
        files.append(file)
    return files


def write_broken(folder: Path, good: bytes) -> int:
    """Files that are no images, as they turn up in every real folder.

    Returns:
        How many.
    """
    jpeg = io.BytesIO()
    Image.new("RGB", (64, 64), "gray").save(jpeg, "JPEG")
    contents = {
        "0/broken-empty.png": b"",
        "2/broken-cut-off.png": good[: len(good) // 2],
        "4/broken-text.png": b"This is no image.\n",
        "6/broken-header-only.png": good[:33],
        "8/broken-cut-off-jpeg.png": jpeg.getvalue()[:200],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return len(contents)


def spec_of(data: DemoData) -> dict[str, Any]:
    """The demo's run; paths are relative to the spec file."""
    return {
        "name": "digits",
        "source": {"kind": "images", "path": HELD_OUT},
        "steps": [{"kind": "label_from_path", "level": -2, "column": "label"}],
        "model": {
            "kind": "huggingface",
            "task": "image-classification",
            "name_or_path": f"./{MODEL}",
        },
        "sink": {"kind": "parquet", "path": data.predictions.name},
    }
