"""The run form as Prefect's two UIs draw it from a flow's schema: tests/browser looks at them."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from prefect.utilities.callables import parameter_schema

from flows.backfill import backfill
from flows.batch_inference import batch_inference
from flows.preview import preview
from flows.redrive import redrive
from flows.search import search
from flows.verify import verify
from tasks.kinds.clusters import AnyCluster
from tasks.kinds.form import title_of
from tasks.kinds.gates import AnyGate
from tasks.kinds.models import AnyModel
from tasks.kinds.sinks import AnySink
from tasks.kinds.sources import AnySource
from tasks.kinds.steps import AnyStep

FLOWS = [batch_inference, preview, verify, redrive, backfill, search]
JSON_BOXES = {"storage_options", "init", "env_vars", "columns", "inputs", "names", "catalog"}
JSON_BOXES |= {"types", "partition_columns"}
"""Free-form by nature: options of a filesystem, arguments of a user's class, variables, renames,
columns by the names of a model's inputs, classes by those of folders, a catalog's properties, types
by the names of columns."""
SERVER_BOXES = {"headers_env", "response_format", "extra_body", "answer_schema"}
"""What servers and engines of language models take beside the fields that have names here."""
ENGINE_BOXES = {"engine_kwargs", "sampling_params", "chat_template_kwargs"}
UNIONS: list[Any] = [AnySource, AnyStep, AnyModel, AnySink, AnyCluster, AnyGate]
REQUIRED = {
    "path": "/data",
    "expression": "x > 0",
    "template": "{x}",
    "function": "code:Mine",
    "class": "code:Mine",
    "task": "text-generation",
    "name": "resnet18",
    "name_or_path": "gpt",
    "column": "x",
    "minimum": 1,
    "maximum": 1,
    "max_fraction": 0,
    "columns": ["x"],
    "width": 256,
    "key": "id",
    "url": "http://server/v1",
    "model": "gpt",
}
EXTRA: dict[str, dict[str, Any]] = {
    "rename": {"columns": {"x": "y"}},
    "ray_jobs": {"block": "ray"},
    "sql": {"path": "sqlite:///shop.db", "table": "orders"},
    **{kind: {"columns": ["x"]} for kind in ("torch", "onnx", "keras")},
}
"""What some kinds take that others of the same field name do not."""


@pytest.fixture(scope="module", params=FLOWS, ids=lambda flow: flow.name)
def schema(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = parameter_schema(request.param).model_dump()
    return found


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field that the form can show, at any depth, with what its model says of it."""
    models = schema["definitions"]
    for owner, model in [("", schema), *models.items()]:
        for name, field in model["properties"].items():
            target = models[field["$ref"].rsplit("/", 1)[-1]] if "$ref" in field else {}
            yield f"{owner}.{name}", {**target, **field}


def test_every_field_has_a_title_and_help(schema: dict[str, Any]) -> None:
    for name, field in fields(schema):
        assert field["title"], name
        assert field.get("description"), name


def test_no_field_is_a_json_editor_that_could_be_a_form(schema: dict[str, Any]) -> None:
    boxes = set()
    for name, field in fields(schema):
        assert not {"oneOf", "discriminator"} & (field.keys() | field.get("items", {}).keys()), name
        assert "type" in field or "anyOf" in field, f"{name} would be an editor"
        if field.get("type") == "object" and not field.get("properties"):
            boxes.add(name.rsplit(".", 1)[-1])
    assert boxes <= JSON_BOXES | SERVER_BOXES | ENGINE_BOXES


def test_the_buttons_of_a_field_are_told_apart(schema: dict[str, Any]) -> None:
    models = schema["definitions"]
    for name, field in fields(schema):
        picks = [*field.get("anyOf", []), *field.get("items", {}).get("anyOf", [])]
        if name.startswith("."):  # a flow's own arguments: Prefect makes their schema
            continue
        named = [
            models[each["$ref"].rsplit("/", 1)[-1]] if "$ref" in each else each for each in picks
        ]
        titles = [each["title"] for each in named]
        assert len(set(titles)) == len(titles), name


def test_what_cannot_be_changed_is_not_typed(schema: dict[str, Any]) -> None:
    for name, field in fields(schema):
        if name.endswith(".kind"):
            assert field["enum"] == [field["const"]], name


def example(kind: Any) -> dict[str, Any]:
    """A full dump, as the deployments' parameters are, with as little set as can be."""
    needed = [
        field.alias or name for name, field in kind.model_fields.items() if field.is_required()
    ]
    tag = kind.model_fields["kind"].default
    given = {name: REQUIRED[name] for name in needed}
    if tag in ("rows", "bounds"):
        given["minimum"] = 1
    dump: dict[str, Any] = kind(**{**given, **EXTRA.get(tag, {})}).model_dump(by_alias=True)
    return dump


def preselected(kinds: tuple[Any, ...], value: dict[str, Any]) -> Any:
    """The first variant of which the value has the most fields: what both UIs select."""
    known = [set(kind.model_json_schema()["properties"]) for kind in kinds]
    in_common = [len(value.keys() & each) for each in known]
    return kinds[in_common.index(max(in_common))]


@pytest.mark.parametrize("union", UNIONS)
def test_the_form_finds_the_variant_of_a_full_dump(union: Any) -> None:
    kinds = get_args(get_args(union)[0])
    for kind in kinds:
        assert preselected(kinds, example(kind)) is kind


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("num_gpus", "GPUs"),
        ("memory_gb", "Memory (GiB)"),
        ("wait_for_nodes_seconds", "Wait for nodes (seconds)"),
        ("per_gpu_hour", "Per GPU hour"),
    ],
)
def test_titles_are_words_with_units(name: str, title: str) -> None:
    assert title_of(name) == title
