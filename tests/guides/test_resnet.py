"""A ResNet says of each picture what it says by itself, in torchvision's form and Hugging Face's.

torchvision runs with operators declared by the tests (`tests/torchvision_shim`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.testing import FinishedRun, RunSpec
from tasks.spec_file import load_spec
from tests.guides.pictures import save_pictures

SPECS = "deployments/specs/resnet-{}.yaml"
FOLDERS = {"n01440764": "shade", "n02102040": "grid", "n02979186": "stripes"}
CLASSES = ["tench", "English springer", "cassette player"]
EXACT = 1e-4
GREY_LEVEL = 0.03
"""How far a score may be off where images are resized by other code, one level of 255 at most."""
ONE_PIXEL = 0.2
"""And where the two put the middle of an image, half a pixel to this side or to that."""

pytestmark = [pytest.mark.usefixtures("torchvision"), pytest.mark.prefect]


@dataclass(frozen=True)
class Pictures:
    """Some to learn, and others in folders as Imagenette has them, one of them mislaid."""

    model: Any
    folder: Path

    @property
    def paths(self) -> list[Path]:
        return sorted(self.folder.rglob("*.jpg"))

    def pixels(self) -> list[np.ndarray]:
        return [np.asarray(Image.open(path)) for path in self.paths]


@pytest.fixture(scope="module")
def pictures(torchvision: None, tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    from tests.torchvision_shim.resnets import trained

    folder = tmp_path_factory.mktemp("imagenette")
    seen = save_pictures(folder / "train", each=5, seed=0, textures=FOLDERS)
    learnt = Pictures(None, seen)
    labels = [[*FOLDERS].index(path.parent.name) for path in learnt.paths]
    unseen = save_pictures(folder / "val", each=3, seed=1, textures=FOLDERS)
    (unseen / "n01440764" / "0.jpg").rename(unseen / "n02102040" / "mislaid.jpg")
    return Pictures(trained(learnt.pixels(), labels, len(CLASSES)), unseen)


def check_rows(done: FinishedRun, pictures: Pictures, wanted: np.ndarray, within: float) -> None:
    """The published rows hold these probabilities, in the order of the paths."""
    rows = sorted(done.rows, key=lambda row: row["path"])
    assert [row["path"] for row in rows] == [str(path) for path in pictures.paths]
    best = [CLASSES[each] for each in wanted.argmax(1)]
    assert [row["predicted_label"].partition(",")[0] for row in rows] == best
    scores = [row["predicted_score"] for row in rows]
    assert np.abs(scores - wanted.max(1)).max() < within


def test_torchvision(run_spec: RunSpec, pictures: Pictures, tmp_path: Path) -> None:
    import torch
    from torchvision import models
    from torchvision.transforms.functional import pil_to_tensor

    torch.save(pictures.model.state_dict(), tmp_path / "resnet18.pth")
    done = run_spec(
        SPECS.format("torchvision"),
        f"source.path={pictures.folder}",
        f"model.path={tmp_path / 'resnet18.pth'}",
        "model.name=resnet18",
        f"model.labels={CLASSES}",
    )
    preset = models.ResNet18_Weights.IMAGENET1K_V1.transforms()
    with torch.inference_mode():
        images = [preset(pil_to_tensor(Image.open(path))) for path in pictures.paths]
        wanted = pictures.model(torch.stack(images)).softmax(-1).numpy()
    check_rows(done, pictures, wanted, EXACT)
    labels = [CLASSES[[*FOLDERS].index(path.parent.name)] for path in pictures.paths]
    right = np.array(labels) == np.array(CLASSES)[wanted.argmax(1)]
    assert 0.75 < right.mean() < 1
    assert done.report["accuracy"] == pytest.approx(right.mean(), abs=1e-6)
    assert f"{right.mean() * 100:.2f} % of {len(right)} rows with a label" in done.page
    assert '<img alt="How often each label met each prediction"' in done.page


def test_hugging_face(run_spec: RunSpec, pictures: Pictures, tmp_path: Path) -> None:
    """The same weights: with the same pixels, the two forms give the same numbers."""
    import torch
    from torchvision import models
    from torchvision.transforms.functional import pil_to_tensor
    from transformers import AutoImageProcessor

    from tests.torchvision_shim.resnets import save_for_transformers

    names = ["tench, Tinca tinca", "English springer, English springer spaniel", CLASSES[2]]
    same = save_for_transformers(pictures.model, names, tmp_path / "resnet18")
    done = run_spec(
        SPECS.format("huggingface"),
        f"source.path={pictures.folder}",
        f"model.name_or_path={tmp_path / 'resnet18'}",
    )
    processor = AutoImageProcessor.from_pretrained(tmp_path / "resnet18")
    preset = models.ResNet18_Weights.IMAGENET1K_V1.transforms()
    with torch.inference_mode():
        images = processor(pictures.pixels(), return_tensors="pt")["pixel_values"]
        wanted = same(images).logits.softmax(-1).numpy()
        tensors = [preset(pil_to_tensor(Image.open(path))) for path in pictures.paths]
        theirs = pictures.model(torch.stack(tensors)).softmax(-1).numpy()
        assert torch.allclose(same(images).logits, pictures.model(images), atol=EXACT)
    check_rows(done, pictures, wanted, GREY_LEVEL)
    check_rows(done, pictures, theirs, ONE_PIXEL)
    assert done.report["accuracy"] > 0.75


def test_folders_are_called_what_the_weights_call_their_classes() -> None:
    from torchvision import models

    (step,) = load_spec(SPECS.format("torchvision")).steps
    known = models.ResNet152_Weights.IMAGENET1K_V1.meta["categories"]
    assert step.kind == "label_from_path"
    assert len(step.names) == 10
    assert set(step.names.values()) <= set(known)
