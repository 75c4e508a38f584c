"""Weights that a user's own class loads: other content is another model."""

from pathlib import Path
from typing import Any

import pytest
from s3fs import S3FileSystem

from flows.testing import RunSpec
from tasks.errors import InvalidSpec
from tasks.kinds.models import PythonModel
from tasks.planning.config import config_digests
from tasks.planning.preflight import check_spec
from tasks.protocol.storage import open_storage
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec
from tests.s3_server import S3

SPEC = """
source: {kind: jsonl, path: in.jsonl}
model:
  kind: python
  class: %s:Scale
  init: {weights: %s}
  weight_files: [factor.txt]
sink: {kind: jsonl, path: out}
cluster: {kind: inline}
"""
CODE = """
from pathlib import Path

class Scale:
    def __init__(self, weights):
        self.factor = float(Path(weights).read_text())

    def __call__(self, batch):
        return {"y": batch["x"] * self.factor}
"""


def configs(spec: BatchInferenceSpec) -> tuple[str, str]:
    return config_digests(spec, check_spec(spec), None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.jsonl").write_text('{"x": 1.0}\n{"x": 2.0}\n')
    module = f"scaling_{tmp_path.name}"  # a process imports one module of a name
    (tmp_path / f"{module}.py").write_text(CODE)
    (tmp_path / "factor.txt").write_text("2")
    (tmp_path / "spec.yaml").write_text(SPEC % (module, tmp_path / "factor.txt"))
    return tmp_path


def test_other_weights_are_another_model(folder: Path, run_spec: RunSpec) -> None:
    assert run_spec(folder / "spec.yaml").table["y"].to_pylist() == [2.0, 4.0]
    (folder / "factor.txt").write_text("3")
    with pytest.raises(InvalidSpec, match="what differs: the model's files"):
        run_spec(folder / "spec.yaml")


def test_their_place_is_of_no_account(folder: Path) -> None:
    here = load_spec(folder / "spec.yaml")
    (folder / "elsewhere").mkdir()
    (folder / "factor.txt").rename(folder / "elsewhere" / "factor.txt")
    with pytest.raises(InvalidSpec, match=r"model.weight_files: '.*/factor.txt' has no file"):
        check_spec(here)
    moved = load_spec(folder / "spec.yaml", ["model.weight_files=[elsewhere/factor.txt]"])
    assert moved.model.weight_files == [str(folder / "elsewhere" / "factor.txt")]  # type: ignore[union-attr]
    (folder / "factor.txt").write_text("2")
    assert configs(moved)[0] == configs(here)[0]


def test_weights_that_change_while_a_replica_loads_them_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    model = PythonModel(class_="scaling:Scale", weight_files=[str(tmp_path)])
    begun = model.fingerprint()
    assert not model.has_changed(begun)
    (tmp_path / "b").write_text("1")
    assert model.has_changed(begun)
    assert not PythonModel(class_="scaling:Scale").has_changed("of whatever")


@pytest.mark.s3
def test_weights_in_a_bucket(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.storage_options["endpoint_url"])
    S3FileSystem.clear_instance_cache()  # a process reads the environment once
    url = s3.url("weights/factor.txt")
    storage, path = open_storage(url, s3.storage_options)
    storage.write(path, b"2")
    model = PythonModel(class_="scaling:Scale", weight_files=[url])
    assert not model.is_known_by_content
    begun = model.fingerprint()
    storage.write(path, b"30")
    assert model.has_changed(begun)


def test_what_is_no_place_is_refused() -> None:
    model: Any = PythonModel(class_="scaling:Scale", weight_files=["nowhere://a"])
    with pytest.raises(InvalidSpec, match=r"model.weight_files: 'nowhere://a' cannot be opened"):
        model.fingerprint()
