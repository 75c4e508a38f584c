"""Pictures through the Vision Transformer's spec: what transformers says of them, file by file."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flows.demo_data import DemoData, prepare_digits
from flows.demo_model import Training
from flows.testing import RunSpec

TOLERANCE = 0.02
"""Of a score: one grey level in some pixels moves it a little."""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> DemoData:
    """Handwritten digits, and a Vision Transformer that was trained on others."""
    return prepare_digits(tmp_path_factory.mktemp("digits"), Training(num_epochs=10))


@pytest.mark.prefect
def test_digits(run_spec: RunSpec, digits: DemoData) -> None:
    import torch
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    given = f"source.path={digits.held_out}", f"model.name_or_path={digits.model}"
    done = run_spec("deployments/specs/vit-classification.yaml", *given)
    assert len(done.rows) == digits.num_held_out
    assert len(done.set_aside) == digits.num_broken
    assert "accuracy" in done.page

    some = done.rows[::10]
    processor = AutoImageProcessor.from_pretrained(digits.model)
    model = AutoModelForImageClassification.from_pretrained(digits.model)
    pictures = [Image.open(row["path"]).convert("RGB") for row in some]
    with torch.inference_mode():
        best = model(**processor(images=pictures, return_tensors="pt")).logits.softmax(-1).max(-1)
    scores = np.array([row["predicted_score"] for row in some])
    np.testing.assert_allclose(scores, best.values.numpy(), atol=TOLERANCE)
    labels = [model.config.id2label[at] for at in best.indices.tolist()]
    assert [row["predicted_label"] for row in some] == labels
    right = [row["predicted_label"] == Path(row["path"]).parent.name for row in done.rows]
    assert np.mean(right) == pytest.approx(digits.held_out_accuracy, abs=0.005)
