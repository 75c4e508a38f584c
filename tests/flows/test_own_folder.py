"""A deployment's run has a folder that is deleted with it: a spec's paths are whole ones."""

from pathlib import Path
from typing import Any

import pytest

from flows import own_folder
from tasks.errors import InvalidSpec
from tests.flows.conftest import spec_of

MODEL = {"kind": "python", "class": "predictors:Double"}
CHUNKS = {"kind": "chunk_text", "size": 100}
EMBEDS = {"kind": "huggingface", "task": "feature-extraction"}
GATE = {"kind": "drift", "column": "x", "maximum": 0.2}


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("source.path", {"source": {"kind": "parquet", "path": "in"}}),
        ("sink.path", {"sink": {"kind": "parquet", "path": "out"}}),
        ("model.weight_files", {"model": {**MODEL, "weight_files": ["model.pt"]}}),
        ("stages.preprocess.path", {"stages": {"preprocess": {"path": "kept"}}}),
        ("gates.1.baseline", {"gates": [GATE, {**GATE, "baseline": "last"}]}),
        ("environment.working_dir", {"environment": {"working_dir": "code"}}),
        ("cluster.manifest", {"cluster": {"kind": "kuberay", "manifest": "ours.yaml"}}),
        ("steps.0.tokenizer", {"steps": [{**CHUNKS, "tokenizer": "./bert"}]}),
        ("model.name_or_path", {"model": {**EMBEDS, "name_or_path": "./bert"}}),
    ],
)
def test_each_path_is_refused_that_a_worker_would_look_for_in_its_own_folder(
    field: str, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(tmp_path, **changes)
    own_folder.check_whole_paths(spec)  # of the command line: it knows where it is
    monkeypatch.setattr(own_folder, "is_deployment_run", lambda: True)
    own_folder.check_whole_paths(spec_of(tmp_path))
    with pytest.raises(
        InvalidSpec, match=f"^{field}: .* is relative to a folder that is deleted with"
    ):
        own_folder.check_whole_paths(spec)


def test_what_is_read_may_lie_where_a_deployment_has_pulled_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("code", "bert"):
        (tmp_path / name).mkdir()
    (tmp_path / "ours.yaml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_folder, "is_deployment_run", lambda: True)
    changes = {
        "environment": {"working_dir": "code"},
        "cluster": {"kind": "kuberay", "manifest": "ours.yaml"},
        "steps": [{**CHUNKS, "tokenizer": "./bert"}],
    }
    own_folder.check_whole_paths(spec_of(tmp_path, **changes))
