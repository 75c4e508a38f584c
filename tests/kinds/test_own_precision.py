"""A precision that a model has no say in is refused before the model is looked for."""

from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.planning.preflight import check_model
from tasks.spec_file import parse_spec

OWN: dict[str, dict[str, Any]] = {
    "python": {"class": "nowhere:Model"},
    "http": {"url": "http://nowhere/v1", "model": "m"},
    "onnx": {"path": "nowhere.onnx", "columns": ["x"]},
    "keras": {"path": "nowhere.keras", "columns": ["x"]},
    "xgboost": {"path": "nowhere.ubj"},
    "sklearn": {"path": "nowhere.skops"},
}


@pytest.mark.parametrize("kind", OWN)
def test_another_precision_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    spec = parse_spec(
        {
            "source": {"kind": "parquet", "path": str(tmp_path)},
            "model": {"kind": kind, **OWN[kind]},
            "sink": {"kind": "parquet", "path": str(tmp_path / "out")},
            "resources": {"dtype": "float16"},
        }
    )
    with pytest.raises(InvalidSpec, match=r"resources\.dtype: 'float16' is not possible: "):
        check_model(spec)
