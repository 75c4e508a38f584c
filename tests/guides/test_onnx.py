"""An ONNX model publishes what onnxruntime gives when it is called with the same rows."""

from pathlib import Path

import numpy as np
import pytest

from flows.testing import RunSpec
from tests.guides.scans import scans
from tests.kinds.digits import softmax, unseen
from tests.kinds.test_onnx import digits_model


@pytest.mark.prefect
def test_scans(run_spec: RunSpec, tmp_path: Path) -> None:
    import onnxruntime

    file = digits_model(tmp_path / "digits" / "digits.onnx", beside=True)
    done = run_spec("deployments/specs/onnx.yaml", f"model.path={file.parent}", rows=scans())

    (logits,) = onnxruntime.InferenceSession(file).run(["scores"], {"x": unseen()})
    scores = softmax(logits)
    assert done.table.column_names == ["scan", "label", "predicted_label", "predicted_score"]
    assert done.table["scan"].to_pylist() == [*range(len(scores))]
    assert done.table["predicted_label"].to_pylist() == [*map(str, scores.argmax(1))]
    np.testing.assert_allclose(done.table["predicted_score"], scores.max(1), atol=1e-6)
    assert "accuracy" in done.page
