"""Published objects are those that the same detector finds in each image by itself."""

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.testing import FinishedRun, RunSpec
from tests.guides.pictures import save_pictures
from tests.kinds.tiny_detectors import NAMES, save_detr

PIXEL, SCORE = 0.01, 1e-4
GREY_LEVELS = 30
"""By which a pixel differs where something is drawn on it; JPEG makes a tenth of that."""
SIDEWAYS = 6
"""EXIF's word for a picture to be turned a quarter."""


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Of many sizes; one is lying on its side, another is broken."""
    folder = save_pictures(tmp_path / "photographs", each=3, seed=0)
    exif = Image.Exif()
    exif[0x0112] = SIDEWAYS
    with Image.open(folder / "grid" / "0.jpg") as image:
        image.save(folder / "grid" / "sideways.jpg", exif=exif)
    (folder / "shade" / "broken.jpg").write_bytes(b"\xff\xd8\xff and no more")
    return folder


def upright(path: str) -> Image.Image:
    """A picture as its camera was held."""
    with Image.open(path) as image:
        turned = "sideways" in path
        return image.transpose(Image.Transpose.ROTATE_270) if turned else image.copy()


def assert_found(
    done: FinishedRun, wanted: dict[str, list[tuple[list[float], str, float]]]
) -> None:
    """The published rows hold these objects, as boxes, labels and scores, best first."""
    assert {row["path"] for row in done.rows} == {*wanted}
    for row in done.rows:
        expected = sorted(wanted[row["path"]], key=lambda each: -each[2])
        assert row["labels"] == [label for _, label, _ in expected]
        assert np.allclose(row["scores"], [score for *_, score in expected], atol=SCORE)
        if expected:
            boxes = [box for box, *_ in expected]
            assert np.abs(np.subtract(row["boxes"], boxes)).max() < PIXEL


def check_thumbnails(done: FinishedRun, count: int) -> None:
    """The report shows images with boxes on them, each as large as labels need."""
    rows = {row["path"]: row for row in done.rows}
    images = re.findall(r"data:image/jpeg;base64,([^\"]+)\"></td><td>([^<]+)</td>", done.page)
    assert len(images) == count
    for data, path in images:
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            assert max(image.size) == 256
            check_box(image, upright(path), rows[path]["boxes"][0])
    assert len(done.page) < 1_000_000


def check_box(thumbnail: Image.Image, image: Image.Image, box: list[float]) -> None:
    """The best object's edges are drawn, which no other's hide; most of the image is as it was."""
    width, height = thumbnail.size
    plain = np.asarray(image.resize(thumbnail.size), np.int16)
    changed = np.abs(np.asarray(thumbnail, np.int16) - plain).max(axis=2)
    scale = np.tile(np.divide(thumbnail.size, image.size), 2)
    corners = np.clip(box * scale, 0, [width - 1, height - 1] * 2)
    x0, y0, x1, y1 = corners.astype(int)
    edges = changed[y0:y1, x0], changed[y0:y1, x1], changed[y0, x0:x1], changed[y1, x0:x1]
    assert min(np.percentile(edge, 10) for edge in edges) > GREY_LEVELS
    assert np.median(changed) < GREY_LEVELS / 2


@pytest.mark.prefect
def test_detr(run_spec: RunSpec, photographs: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoImageProcessor, AutoModelForObjectDetection

    save_detr(tmp_path / "detr")
    changes = f"source.path={photographs}", f"model.name_or_path={tmp_path / 'detr'}"
    few = "model.options={threshold: 0.3, max_detections: 50}", "errors.max_rejected_fraction=0.1"
    done = run_spec("deployments/specs/detr.yaml", *changes, *few)

    assert [Path(row["source"]).name for row in done.set_aside] == ["broken.jpg"]
    processor = AutoImageProcessor.from_pretrained(tmp_path / "detr")
    model = AutoModelForObjectDetection.from_pretrained(tmp_path / "detr").eval()
    wanted: dict[str, list[Any]] = {}
    for row in done.rows:
        image = upright(row["path"])
        with torch.inference_mode():
            outputs = model(**processor(image, return_tensors="pt"))
        (found,) = processor.post_process_object_detection(
            outputs, threshold=0.3, target_sizes=[(image.height, image.width)]
        )
        labels = [NAMES[each] for each in found["labels"].tolist()]
        both = found["boxes"].tolist(), labels, found["scores"].tolist()
        wanted[row["path"]] = [*zip(*both, strict=True)]
        assert row["folder"] == Path(row["path"]).parent.name
    assert len(wanted) == 10
    assert sum(map(len, wanted.values())) > 10
    assert_found(done, wanted)
    check_thumbnails(done, 4)  # of the first folder


@pytest.mark.prefect
@pytest.mark.usefixtures("torchvision")
def test_faster_rcnn(run_spec: RunSpec, photographs: Path, tmp_path: Path) -> None:
    """With torchvision's operators declared by the tests (`tests/torchvision_shim`)."""
    import torch
    from torchvision import models
    from torchvision.transforms.functional import pil_to_tensor

    from tests.torchvision_shim.models import OBJECTS, faster_rcnn

    name = "fasterrcnn_mobilenet_v3_large_320_fpn"
    some = [np.asarray(Image.open(path)) for path in sorted(photographs.glob("*/[012].jpg"))]
    model = faster_rcnn(name, some)
    torch.save(model.state_dict(), tmp_path / "detector.pth")
    changes = f"model.name={name}", f"model.path={tmp_path / 'detector.pth'}"
    others = f"model.labels={OBJECTS}", "model.options.threshold=0.3"
    budget = "errors.max_rejected_fraction=0.1"
    spec, source = "deployments/specs/faster-rcnn.yaml", f"source.path={photographs}"
    done = run_spec(spec, source, *changes, *others, budget)

    assert [Path(row["source"]).name for row in done.set_aside] == ["broken.jpg"]
    preset = models.get_model_weights(name).COCO_V1.transforms()
    wanted: dict[str, list[Any]] = {}
    for row in done.rows:
        with torch.inference_mode():
            (found,) = model([preset(pil_to_tensor(upright(row["path"])))])
        labels = [OBJECTS[each] for each in found["labels"].tolist()]
        both = found["boxes"].tolist(), labels, found["scores"].tolist()
        wanted[row["path"]] = [each for each in zip(*both, strict=True) if each[2] > 0.3]
    assert len(wanted) == 10
    assert sum(map(len, wanted.values())) > 10
    assert_found(done, wanted)
    check_thumbnails(done, 8)
