"""ZoeDepth, whose processor needs torchvision, and whose batches decide together what they show."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.kinds.maps import depths_of
from tests.kinds.test_depth import PICTURES, TASK, furthest
from tests.kinds.tiny_depths import save_zoedepth
from tests.kinds.tiny_models import noise, png, predicted, rows_of

ODD = [*PICTURES[:4], *noise((40, 50), (50, 40), (50, 41), (60, 60), (33, 64))]


@pytest.fixture
def with_torchvision(torchvision: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers has looked for it, and found none, before the tests lend it one."""
    from torchvision.transforms.v2 import functional
    from transformers.models.zoedepth import image_processing_pil_zoedepth as processing

    monkeypatch.setattr(processing, "tvF", functional, raising=False)


@pytest.mark.usefixtures("with_torchvision")
def test_each_image_is_judged_alone_as_by_the_pipeline(tmp_path: Path) -> None:
    from transformers import pipeline

    save_zoedepth(tmp_path)
    library: Any = pipeline(TASK, str(tmp_path), device="cpu")
    rows = rows_of("image", [png(each) for each in ODD])
    found = predicted(tmp_path, TASK, rows, batch_size=4)
    farthest = []
    for mine, picture in zip(depths_of(found), ODD, strict=True):
        theirs = library(Image.fromarray(picture))["predicted_depth"].numpy()
        assert theirs.shape == picture.shape[:2]
        assert furthest(mine, theirs) < 1
        farthest.append(np.max(theirs))
    assert len({round(float(each)) for each in farthest}) > 1
