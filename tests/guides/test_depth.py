"""Published depths are those that transformers' own pipeline estimates in each photograph."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.testing import RunSpec
from tests.guides.pictures import save_pictures
from tests.kinds.tiny_depths import save_depth_anything

STEPS = 65_535


@pytest.mark.prefect
def test_depths(run_spec: RunSpec, tmp_path: Path) -> None:
    from transformers import pipeline

    photographs = save_pictures(tmp_path / "photographs", each=3, seed=0)
    (photographs / "grid" / "broken.jpg").write_bytes(b"\xff\xd8\xff and no more")
    save_depth_anything(tmp_path / "model")
    done = run_spec(
        "deployments/specs/depth-estimation.yaml",
        f"source.path={photographs}",
        f"model.name_or_path={tmp_path / 'model'}",
        "errors.max_rejected_fraction=0.1",
    )
    assert [Path(row["source"]).name for row in done.set_aside] == ["broken.jpg"]
    library: Any = pipeline("depth-estimation", str(tmp_path / "model"), device="cpu")
    assert len(done.rows) == 9
    for row in done.rows:
        pixels = np.asarray(Image.open(io.BytesIO(row["depth"])))
        depths = row["depth_min"] + pixels / STEPS * (row["depth_max"] - row["depth_min"])
        with Image.open(row["path"]) as image:
            theirs = library(image)["predicted_depth"].numpy()
        assert np.abs(depths - theirs).max() < np.ptp(theirs) / STEPS
    assert "image" not in done.table.column_names
