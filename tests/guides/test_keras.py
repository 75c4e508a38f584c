"""A Keras model publishes what Keras gives when it is called with the same rows."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from flows.testing import RunSpec
from tasks.kinds.models.tensors import keras_backend
from tests.guides.scans import scans
from tests.kinds.digits import unseen, weights


@pytest.mark.prefect
def test_scans(run_spec: RunSpec, tmp_path: Path) -> None:
    keras = keras_backend.keras_with(keras_backend.chosen("auto"))
    dense = keras.layers.Dense(10, activation="softmax")
    model = keras.Sequential([keras.Input((64,)), dense])
    dense.set_weights(weights())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Keras on NumPy 2
        model.save(tmp_path / "digits.keras")
    path = f"model.path={tmp_path / 'digits.keras'}"
    done = run_spec("deployments/specs/keras.yaml", path, rows=scans())

    loaded = keras.saving.load_model(tmp_path / "digits.keras")
    scores = loaded(unseen(), training=False).detach().numpy()
    assert done.table.column_names == ["scan", "label", "predicted_label", "predicted_score"]
    assert done.table["scan"].to_pylist() == [*range(len(scores))]
    assert done.table["predicted_label"].to_pylist() == [*map(str, scores.argmax(1))]
    np.testing.assert_allclose(done.table["predicted_score"], scores.max(1), atol=1e-6)
    assert "accuracy" in done.page
