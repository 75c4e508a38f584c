"""The operators that these tests declare in torchvision's place do what torchvision's do.

What needs torchvision runs here, and elsewhere in these tests, with operators declared by the
tests: there is no torchvision built for torch without CUDA. With CUDA they are torchvision's.
"""

import math
import sys

import numpy as np
import pytest

Box = list[float]


def overlap(first: Box, second: Box) -> float:
    """Intersection over union, one number at a time."""
    width = max(0.0, min(first[2], second[2]) - max(first[0], second[0]))
    height = max(0.0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return width * height / (sum(areas) - width * height)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_nms_is_that_of_loops(torchvision: None, threshold: float) -> None:
    import torch
    from torchvision import ops

    random = np.random.default_rng(0)
    low = random.uniform(0, 50, (60, 2))
    boxes = np.concatenate([low, low + random.uniform(5, 40, (60, 2))], axis=1)
    scores = random.permutation(60) / 60
    kept: list[int] = []
    for at in np.argsort(-scores).tolist():
        if all(overlap(boxes[at].tolist(), boxes[k].tolist()) <= threshold for k in kept):
            kept.append(at)
    found = ops.nms(torch.tensor(boxes), torch.tensor(scores), threshold)
    assert found.tolist() == kept
    assert 1 < len(kept) < 60
    assert ops.nms(torch.empty(0, 4), torch.empty(0), threshold).tolist() == []


def sample(plane: np.ndarray, y: float, x: float) -> float:
    """A plane's value between its pixels; 0 from a pixel outside on."""
    height, width = plane.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    top, left = math.floor(y), math.floor(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    upper = plane[top, left] * (1 - dx) + plane[top, right] * dx
    lower = plane[bottom, left] * (1 - dx) + plane[bottom, right] * dx
    return float(upper * (1 - dy) + lower * dy)


def pooled_by_loops(
    plane: np.ndarray, box: Box, scale: float, cells: int, ratio: int, aligned: bool
) -> list[list[float]]:
    """A region's cells, each the mean of its samples."""
    offset = 0.5 if aligned else 0.0
    x0, y0, x1, y1 = (each * scale - offset for each in box)
    least = 0.0 if aligned else 1.0
    width, height = max(x1 - x0, least), max(y1 - y0, least)
    down = ratio if ratio > 0 else math.ceil(height / cells)
    across = ratio if ratio > 0 else math.ceil(width / cells)
    found = []
    for row in range(cells):
        found.append([0.0] * cells)
        for column in range(cells):
            values = [
                sample(
                    plane,
                    y0 + (row + (i + 0.5) / down) * height / cells,
                    x0 + (column + (j + 0.5) / across) * width / cells,
                )
                for i in range(down)
                for j in range(across)
            ]
            found[-1][column] = sum(values) / len(values)
    return found


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [2, 0])
def test_roi_align_is_that_of_loops(torchvision: None, ratio: int, aligned: bool) -> None:
    import torch
    from torchvision import ops

    random = np.random.default_rng(1)
    planes = random.normal(size=(2, 3, 12, 17))
    boxes = [[2.0, 3, 20, 21], [-4.0, -3, 9, 30], [30.0, 5, 40, 22], [7.2, 7.1, 7.9, 8.3]]
    images = [0, 1, 1, 0]
    rois = [torch.tensor([image, *box]).double() for image, box in zip(images, boxes, strict=True)]
    found = ops.roi_align(torch.tensor(planes), torch.stack(rois), 3, 0.5, ratio, aligned)
    for at, (image, box) in enumerate(zip(images, boxes, strict=True)):
        for channel in range(3):
            wanted = pooled_by_loops(planes[image, channel], box, 0.5, 3, ratio, aligned)
            assert np.allclose(found[at, channel].numpy(), wanted, atol=1e-5)


@pytest.mark.parametrize(("cuda", "declared"), [(None, ["ours"]), ("13.0", [])])
def test_torchvisions_own_operators_are_used_where_there_are_any(
    cuda: str | None, declared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second declaration of one would be an error."""
    import torch

    from tests.torchvision_shim import loading

    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(loading, "DECLARED", [])
    monkeypatch.setattr(loading, "declare", lambda: "ours")
    monkeypatch.setattr(loading, "pretend_ops_are_there", lambda: None)
    for _ in range(2):
        loading.declare_what_is_missing()
    assert declared == loading.DECLARED


def test_transformers_takes_no_notice(torchvision: None) -> None:
    import torchvision as found
    from transformers import ViTImageProcessor
    from transformers.utils import is_torchvision_available

    assert found is sys.modules["torchvision"]
    assert not is_torchvision_available()
    assert ViTImageProcessor().backend == "pil"
