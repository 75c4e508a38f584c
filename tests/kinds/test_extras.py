"""A package that only some kinds need is named before anything starts, with the extra for it."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tasks.errors import InvalidSpec
from tasks.planning.preflight import check_spec
from tests.flows.conftest import spec_of

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OF_NO_KIND = {"azure", "demo", "dev", "google", "postgres", "testing"}
"""Drivers of databases are asked for by SQLAlchemy (`test_sql`), stores by URLs (`test_places`)."""
PACKAGES = {"sklearn": "scikit-learn", "lance": "pylance"}
"""Those that are called otherwise than what is imported."""

SPEECH = {"kind": "huggingface", "task": "automatic-speech-recognition", "name_or_path": "nowhere"}
TEXTS = {"kind": "huggingface", "task": "feature-extraction", "name_or_path": "nowhere"}
FILE = {"path": "nowhere"}
LACKING: list[tuple[str, dict[str, Any], str, str]] = [
    ("source", {"kind": "audio", **FILE}, "av", "audio"),
    ("source", {"kind": "video", **FILE}, "av", "video"),
    ("source", {"kind": "iceberg", "path": "sales.orders"}, "pyiceberg", "iceberg"),
    ("source", {"kind": "lance", **FILE}, "lance", "lance"),
    ("model", SPEECH, "av", "audio"),
    ("model", {**SPEECH, "task": "audio-classification"}, "av", "audio"),
    ("model", {**TEXTS, "runtime": "openvino"}, "openvino", "openvino"),
    ("model", {**TEXTS, "runtime": "onnx"}, "onnx", "onnx-runtime"),
    ("model", {**TEXTS, "runtime": "onnx"}, "onnxscript", "onnx-runtime"),
    ("model", {**TEXTS, "runtime": "onnx"}, "onnxruntime", "onnx-runtime"),
    ("model", {"kind": "keras", "columns": ["x"], **FILE}, "keras", "keras"),
    ("model", {"kind": "onnx", "columns": ["x"], **FILE}, "onnxruntime", "onnx"),
    ("model", {"kind": "sklearn", **FILE}, "sklearn", "sklearn"),
    ("model", {"kind": "sklearn", **FILE}, "skops", "sklearn"),
    ("model", {"kind": "sklearn", **FILE}, "joblib", "sklearn"),
    ("model", {"kind": "sklearn", **FILE}, "threadpoolctl", "sklearn"),
    ("model", {"kind": "torchvision", "name": "resnet18"}, "torchvision", "torchvision"),
    ("model", {"kind": "vllm", "name_or_path": "nowhere"}, "vllm", "vllm"),
    ("model", {"kind": "xgboost", **FILE}, "xgboost", "xgboost"),
    ("sink", {"kind": "iceberg", **FILE}, "pyiceberg", "iceberg"),
    ("sink", {"kind": "lance", **FILE}, "lance", "lance"),
    ("cluster", {"kind": "kuberay", "image": "worker"}, "kubernetes", "kuberay"),
]


@pytest.mark.parametrize(("section", "given", "module", "extra"), LACKING)
def test_what_is_missing_is_named_with_its_extra(
    section: str,
    given: dict[str, Any],
    module: str,
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "in").mkdir()
    spec = spec_of(tmp_path / "in", **{section: given})
    monkeypatch.setitem(sys.modules, module, None)  # neither found nor imported
    way_out = re.escape(f"pip install 'prefect-ray-data[{extra}]'")
    with pytest.raises(InvalidSpec, match=rf"^{section}\.\w+: '[\w-]+' needs .*{way_out}"):
        check_spec(spec)


@pytest.mark.parametrize(("module", "extra"), sorted({each[2:] for each in LACKING}))
def test_the_extra_brings_what_is_missing(module: str, extra: str) -> None:
    assert PACKAGES.get(module, module) in {Requirement(each).name for each in EXTRAS[extra]}


def test_no_extra_is_left_out_here() -> None:
    assert EXTRAS.keys() - OF_NO_KIND == {extra for *_, extra in LACKING}
