"""A pipeline of scikit-learn says of each row what it says outside, whatever its columns hold."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.testing import RunSpec

GRAPES = ["barolo", "grignolino", "barbera"]
COLOURS = ["pale", "deep"]


@pytest.fixture(scope="module")
def wines() -> pd.DataFrame:
    """Analyses, of which one measurement is given in words, and the grape."""
    from sklearn.datasets import load_wine

    frame: pd.DataFrame = load_wine(as_frame=True).frame.sample(frac=1, random_state=0)
    frame["colour_intensity"] = [COLOURS[int(x > 5)] for x in frame.pop("color_intensity")]
    frame["grape"] = [GRAPES[each] for each in frame.pop("target")]
    return frame.reset_index(drop=True)


@pytest.fixture(scope="module")
def pipeline(wines: pd.DataFrame) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    seen = wines[:100]
    prepared = make_column_transformer(
        (OneHotEncoder(), ["colour_intensity"]), remainder=StandardScaler()
    )
    forest = RandomForestClassifier(20, random_state=0, n_jobs=-1)
    return make_pipeline(prepared, forest).fit(
        seen.drop(columns="grape"), [GRAPES.index(each) for each in seen["grape"]]
    )


@pytest.mark.prefect
def test_wines(run_spec: RunSpec, pipeline: Any, wines: pd.DataFrame, tmp_path: Path) -> None:
    import skops.io

    skops.io.dump(pipeline, tmp_path / "wines.skops")
    unseen = wines[100:].reset_index(drop=True)
    unseen.insert(0, "bottle", range(len(unseen)))
    rows: list[Any] = unseen.to_dict("records")
    rows[3]["malic_acid"] = None  # the scaler would let it pass, and the forest as well
    rows[5]["colour_intensity"] = "mauve"  # the encoder has not seen it
    spec, path = "deployments/specs/sklearn.yaml", f"model.path={tmp_path / 'wines.skops'}"
    done = run_spec(spec, path, "errors.max_rejected_fraction=0.1", rows=rows)

    assert [each["row"] for each in done.set_aside] == [5]
    assert "mauve" in done.set_aside[0]["error_message"]
    kept = pd.DataFrame(rows).drop(index=5)
    scores = pipeline.predict_proba(kept.drop(columns=["bottle", "grape"]))
    assert done.table["bottle"].to_pylist() == kept["bottle"].tolist()
    expected = [GRAPES[at] for at in scores.argmax(axis=1)]
    assert done.table["predicted_label"].to_pylist() == expected
    np.testing.assert_allclose(done.table["predicted_score"], scores.max(axis=1), atol=1e-6)
