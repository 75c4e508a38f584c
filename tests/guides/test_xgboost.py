"""Trees from a Ray Train checkpoint say of each row what Ray's own way of loading them says."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.testing import RunSpec

LABELS = ["malignant", "benign"]


@pytest.fixture(scope="module")
def tumours() -> pd.DataFrame:
    """Measurements that the model has not seen, with their label."""
    from sklearn.datasets import load_breast_cancer

    frame: pd.DataFrame = load_breast_cancer(as_frame=True).frame
    frame["label"] = [LABELS[each] for each in frame.pop("target")]
    return frame


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, tumours: pd.DataFrame) -> Path:
    """What Ray's report callback leaves of a training: one file in a folder."""
    import xgboost

    folder = tmp_path_factory.mktemp("checkpoint_000000")
    seen = tumours[:400]
    data = xgboost.DMatrix(seen.drop(columns="label"), seen["label"] == "benign")
    parameters = {"objective": "binary:logistic", "nthread": 1}
    xgboost.train(parameters, data, num_boost_round=20).save_model(folder / "model.ubj")
    return folder


def rays_way(checkpoint: Path, rows: pd.DataFrame) -> np.ndarray:
    """The model as the guide loads it, over a pandas batch."""
    import xgboost
    from ray.train import Checkpoint
    from ray.train.xgboost import RayTrainReportCallback

    booster = RayTrainReportCallback.get_model(Checkpoint.from_directory(str(checkpoint)))
    values: np.ndarray = booster.predict(xgboost.DMatrix(rows))
    return values


@pytest.mark.prefect
def test_tumours(run_spec: RunSpec, checkpoint: Path, tumours: pd.DataFrame) -> None:
    unseen = tumours[400:].reset_index(drop=True)
    unseen.insert(0, "sample", range(len(unseen)))
    unseen.loc[::7, "mean radius"] = np.nan  # missing values are the trees' own business
    rows: list[Any] = unseen.astype(object).replace({np.nan: None}).to_dict("records")
    done = run_spec("deployments/specs/xgboost.yaml", f"model.path={checkpoint}", rows=rows)

    benign = rays_way(checkpoint, unseen.drop(columns=["sample", "label"]))
    assert done.table.column_names == ["sample", "label", "predicted_label", "predicted_score"]
    assert done.table["sample"].to_pylist() == list(range(len(unseen)))
    assert done.table["predicted_label"].to_pylist() == [LABELS[int(p > 0.5)] for p in benign]
    np.testing.assert_allclose(
        done.table["predicted_score"], np.maximum(benign, 1 - benign), atol=1e-6
    )
