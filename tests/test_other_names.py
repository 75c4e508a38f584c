"""Who comes with the words of Ray Data, transformers or pandas is told those of a spec."""

from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.spec_file import parse_spec
from tasks.spec_reading.names import kinds_at, places
from tasks.spec_reading.other_names import FIELDS, KINDS

PYTHON = {"kind": "python", "class": "a:B"}
HUGGINGFACE = {"kind": "huggingface", "task": "feature-extraction"}
CLIP = {**HUGGINGFACE, "name_or_path": "openai/clip"}
PARQUET = {"kind": "parquet", "path": "/x"}
RAW: dict[str, Any] = {"source": PARQUET, "model": PYTHON, "sink": PARQUET}


def refused(**changes: Any) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({**RAW, **changes})
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"num_gpus": 1}, "did you mean resources.num_gpus?"),
        ({"model": {**PYTHON, "batch_size": 64}}, "did you mean resources.batch_size?"),
        ({"model": {**PYTHON, "concurrency": 4}}, "did you mean resources.max_replicas?"),
        ({"model": {**PYTHON, "gates": []}}, "did you mean gates at the top level?"),
        ({"model": {"kind": "onnx", "path": "/x", "name": "a"}}, "kind torchvision has it"),
        ({"resources": {"concurrency": 4}}, "did you mean max_replicas?"),
        ({"concurrency": 4}, "did you mean resources.max_replicas?"),
        ({"max_retries": 4}, "did you mean retries.max_attempts?"),
        ({"model": {**HUGGINGFACE, "model": "a/b"}}, "did you mean name_or_path?"),
        ({"model": {**CLIP, "columns": 1}}, "did you mean column?"),
        (
            {"model": {**CLIP, "top_k": 1}},
            "did you mean model.options.top_k?",
        ),
        ({"model": {**PYTHON, "device": "cuda"}}, "did you mean resources.num_gpus?"),
        ({"source": {"kind": "csv", "path": "/x", "sep": ";"}}, "did you mean delimiter?"),
        ({"source": {**PARQUET, "delimiter": ";"}}, "kind csv has it"),
        ({"types": {}}, "did you mean source.types or sink.types?"),
        ({"runtime_env": {}}, "did you mean environment?"),
        ({"preprocess": []}, "did you mean steps?"),
        ({"output": PARQUET}, "did you mean sink?"),
        ({"cluster": {"kind": "inline", "address": "x"}}, "kind local or ray_jobs or kuberay has"),
        ({"path": "/x"}, "there is no such field"),
        ({"zzz": 1}, "there is no such field"),
    ],
    ids=str,
)
def test_a_field_by_another_name_or_in_another_place(changes: dict[str, Any], hint: str) -> None:
    (line,) = (line for line in refused(**changes) if "no such field" in line)
    assert hint in line
    assert ("did you mean" in line) == ("did you mean" in hint)


@pytest.mark.parametrize(
    ("changes", "meant"),
    [
        ({"model": {"kind": "hf"}}, "huggingface"),
        ({"model": {"kind": "PyTorch"}}, "torch"),
        ({"steps": [{"kind": "map_batches"}]}, "python"),
        ({"steps": [{"kind": "flat_map"}]}, "map"),
        ({"cluster": {"kind": "ray"}}, "ray_jobs"),
        ({"source": {"kind": "postgres"}}, "sql"),
    ],
)
def test_a_kind_by_another_name(changes: dict[str, Any], meant: str) -> None:
    (line,) = refused(**changes)
    assert line.endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ({"cluster": "inline"}, "{kind: inline}"),
        ({"sink": "csv"}, "{kind: csv, ...}"),
        ({"source": "s3://bucket/x"}, "{kind: images, ...}"),
        ({"steps": ["select"]}, "{kind: select, ...}"),
    ],
)
def test_a_word_in_the_place_of_a_part(changes: dict[str, Any], written: str) -> None:
    (line,) = refused(**changes)
    assert line.endswith(f"it must have fields, as in {written}")


def test_every_name_leads_to_one_that_there_is() -> None:
    assert {*FIELDS.values()} <= {*places()}
    sections = ("source", "steps", "model", "sink", "cluster")
    assert {*KINDS.values()} <= {kind for each in sections for kind in kinds_at((each,))}
