"""A kind is one file and one line: none is forgotten, and every one explains itself."""

import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import TypeAdapter

from tasks.kinds import gates, models, sinks, sources, steps

NO_GATES = {"chance", "gate", "labels_gate", "comparison", "distances", "distribution", "values"}
NO_SOURCES = {"source", "listing", "input_names", "table", "doubles", "fitting", "likely_rows"}
NO_SOURCES |= {"compressed", "linked_files", "stored_arrays", "json_misfits", "wanted_files"}
NO_SOURCES |= {"json_arrays", "json_types", "folder_columns", "given_types", "other_columns"}
NO_SOURCES |= {"parquet_types", "row_groups", "files_to_ask", "encoded", "json_fits", "sifting"}
NO_SOURCES |= {"whole_file"}
NO_MODELS = {"model", "batch_limit", "file_model", "arrays", "output_names", "safetensors_file"}
NO_MODELS |= {"torch_threads", "torch_batches", "onednn", "exact_floats", "machine_errors"}
NO_MODELS |= {"input_types", "odd_numbers", "fetched_files"}
NO_SINKS = {"sink", "table_sink", "json_texts", "partitions"}
UNIONS = [
    pytest.param(sources, sources.AnySource, NO_SOURCES, id="sources"),
    pytest.param(steps, steps.AnyStep, {"step"}, id="steps"),
    pytest.param(models, models.AnyModel, NO_MODELS, id="models"),
    pytest.param(gates, gates.AnyGate, NO_GATES, id="gates"),
    pytest.param(sinks, sinks.AnySink, NO_SINKS, id="sinks"),
]


@pytest.mark.parametrize(("package", "union", "no_kinds"), UNIONS)
def test_every_file_is_in_the_union(package: ModuleType, union: Any, no_kinds: set[str]) -> None:
    assert package.__file__
    files = {file.stem for file in Path(package.__file__).parent.glob("*.py")}
    members = typing.get_args(typing.get_args(union)[0])
    assert {member.__module__.rsplit(".", 1)[-1] for member in members} == (
        files - no_kinds - {"__init__"}
    )
    for member in members:
        assert member.model_fields["kind"].default == member.__module__.rsplit(".", 1)[-1]
        assert member.__name__ in package.__all__


@pytest.mark.parametrize(("package", "union", "no_kinds"), UNIONS)
def test_the_run_form_gets_a_picker_with_help(
    package: ModuleType, union: Any, no_kinds: set[str]
) -> None:
    schema = TypeAdapter(union).json_schema()
    assert {tuple(each) for each in schema["anyOf"]} == {("$ref",)}
    for kind in schema["$defs"].values():
        assert kind["title"]
        assert all(each["description"] for each in kind["properties"].values())
