"""What is said to differ where a spec may not add to an output, or go on with a run."""

from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec, UnfinishedRun
from tasks.plan import make_plan
from tasks.planning.config_parts import differences
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.reporting import CODE, classify_spec, make_inputs, run_attempt, run_spec

CHANGES: list[tuple[dict[str, Any], str]] = [
    (
        {"model": {"init": {"bad": [3], "seen": 1}}},
        "model.init.bad.0 was 7, now 3; model.init.seen",
    ),
    ({"model": {"init": {"bad": []}}}, r"model.init.bad was \[7\], now \[\]\."),
    ({"model": {"init": {"bad": [7], "api_key": "k"}}}, r"model.init.api_key was .*, now '?\*\*\*"),
    ({"sink": {"compression": "snappy"}}, "sink.compression was its default, now 'snappy'"),
    (
        {"steps": [{"kind": "label_from_path", "column": "folder"}]},
        r"steps was \[\], now \[\{'column': 'folder', 'kind': 'label_from_path'\}\]",
    ),
]


@pytest.fixture
def spec(tmp_path: Path) -> BatchInferenceSpec:
    make_inputs(tmp_path / "in")
    code_of(tmp_path).write_bytes((CODE / "report_models.py").read_bytes())
    called = f"{code_of(tmp_path).stem}:Classify"
    model = {"kind": "python", "class": called, "init": {"bad": [7]}}
    found = classify_spec(tmp_path, model=model, environment={"working_dir": str(tmp_path)})
    assert isinstance(found, BatchInferenceSpec)
    return found


def code_of(folder: Path) -> Path:
    """The model's module; no process imports two of one name."""
    return folder / f"models_of_{folder.name}.py"


def changed(spec: BatchInferenceSpec, parts: dict[str, Any]) -> BatchInferenceSpec:
    raw = spec.model_dump(mode="json", by_alias=True)
    for name, part in parts.items():
        raw[name] = {**raw[name], **part} if isinstance(part, dict) else part
    return parse_spec(raw)


def test_what_differs_from_what_is_published_is_said(
    spec: BatchInferenceSpec, tmp_path: Path
) -> None:
    planned, _ = run_spec(spec)
    for parts, said in CHANGES:
        with pytest.raises(InvalidSpec, match=f"version 1 .run {planned.run.run_id}.*: {said}"):
            make_plan(changed(spec, parts))
    with pytest.raises(
        InvalidSpec, match=r"what differs: --limit was none, now 2\. Undo the change"
    ):
        make_plan(spec, RunOptions(limit=2))
    with code_of(tmp_path).open("a") as file:
        file.write("\n\nMENDED = True\n")
    with pytest.raises(InvalidSpec, match=r"differs: the code of steps or model\. Undo the change"):
        make_plan(spec)
    code_of(tmp_path).write_bytes((CODE / "report_models.py").read_bytes())
    assert make_plan(spec).nothing_to_do


def test_what_differs_from_an_unfinished_run_is_said(spec: BatchInferenceSpec) -> None:
    run_attempt(make_plan(spec))
    for parts, said in CHANGES:
        with pytest.raises(UnfinishedRun, match=f"with [0-9]+ rows done; what differs: {said}"):
            make_plan(changed(spec, parts))
    other = {"source": {"path": [spec.source.paths[0], f"{spec.source.paths[0]}/*.parquet"]}}
    with pytest.raises(UnfinishedRun, match=r"differs: source.path was '.*/in', now \['.*'\]\. "):
        make_plan(changed(spec, other))
    with pytest.raises(UnfinishedRun, match="what differs: --replace-output; --limit was none, "):
        make_plan(spec, RunOptions(replace_output=True, limit=2))


def test_values_of_another_kind_are_not_compared_field_by_field() -> None:
    was, now = {"kind": "a", "size": 1}, {"kind": "b", "size": 2}
    assert differences({"model": was}, {"model": now}) == [f"model was {was}, now {now}"]


def test_of_values_that_are_too_long_to_be_shown_it_is_said_that_they_differ() -> None:
    (said,) = differences([*range(99)], [*range(98)], "model", "init", "bad")
    assert said.startswith("model.init.bad, shown as [0, 1, ")
    assert said.endswith("19, ...] then and now, differs in the rest")
