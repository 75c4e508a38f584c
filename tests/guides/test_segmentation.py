"""Published maps are those that transformers' own pipeline makes of each photograph."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.testing import RunSpec
from tests.guides.pictures import save_pictures
from tests.kinds.tiny_segmenters import NAMES, save_segformer


@pytest.mark.prefect
def test_street_scenes(run_spec: RunSpec, tmp_path: Path) -> None:
    from transformers import pipeline

    photographs = save_pictures(tmp_path / "photographs", each=4, seed=0)
    (photographs / "shade" / "broken.jpg").write_bytes(b"\xff\xd8\xff and no more")
    save_segformer(tmp_path / "model")
    done = run_spec(
        "deployments/specs/image-segmentation.yaml",
        f"source.path={photographs}",
        f"model.name_or_path={tmp_path / 'model'}",
        "errors.max_rejected_fraction=0.1",
    )
    assert [Path(row["source"]).name for row in done.set_aside] == ["broken.jpg"]
    library: Any = pipeline("image-segmentation", str(tmp_path / "model"), device="cpu")
    assert len(done.rows) == 12
    seen = set[str]()
    for row in done.rows:
        with Image.open(row["path"]) as image:
            masks = {each["label"]: np.asarray(each["mask"]) > 0 for each in library(image)}
        names = np.array([*NAMES.values()])[np.asarray(Image.open(io.BytesIO(row["segmentation"])))]
        assert all((mask == (names == name)).all() for name, mask in masks.items())
        shares = {name: pytest.approx(mask.mean(), abs=1e-6) for name, mask in masks.items()}
        assert dict(zip(row["labels"], row["shares"], strict=True)) == shares
        seen |= {*masks}
    assert len(seen) > 2
    assert "image" not in done.table.column_names
