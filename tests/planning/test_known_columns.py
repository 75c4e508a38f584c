"""Columns that steps, model, sink and gates name are looked for before anything starts."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InvalidSpec, SchemaMismatch, UserCodeBroke
from tasks.kinds.steps import (
    AnyStep,
    ChunkTextStep,
    FilterStep,
    LabelFromPathStep,
    RenameStep,
    SelectStep,
    TileImagesStep,
)
from tasks.kinds.tensors import is_tensor
from tasks.plan import make_plan
from tasks.planning.known_columns import refuse_unknown_columns, refuse_unpublished
from tasks.planning.known_types import lasting_columns
from tasks.protocol.batch import ROW
from tasks.publish import publish_planned
from tasks.published import published_rows
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.kinds.tiny_models import png
from tests.reporting import classify_spec, run_attempt, run_spec

Rows = dict[str, list[Any]]
IMAGES: Rows = {"path": ["/in/cat/a.png"], "image": [png(np.zeros((4, 4, 3), np.uint8))]}
TEXTS: Rows = {"path": ["/in/cat/a.txt"], "text": ["some words"], "label": ["cat"]}
STEPS: list[tuple[AnyStep, Rows]] = [
    (SelectStep(columns=["text", "path"]), TEXTS),
    (SelectStep(columns=["path"], drop=True), TEXTS),
    (RenameStep(columns={"text": "body"}), TEXTS),
    (FilterStep(expression="text is not None and label != 'dog'"), TEXTS),
    (LabelFromPathStep(), IMAGES),
    (LabelFromPathStep(), TEXTS),
    (ChunkTextStep(), TEXTS),
    (TileImagesStep(width=2), IMAGES),
]


@pytest.mark.parametrize(("step", "rows"), STEPS, ids=lambda each: getattr(each, "kind", ""))
def test_a_step_leaves_the_columns_that_it_says_and_reads_no_other(
    step: AnyStep, rows: Rows
) -> None:
    table = pa.table({ROW: [7], **rows})
    told = step.schema_after(table.schema.remove(0))
    made = step.build()(table).drop_columns([ROW]).schema
    assert told is not None
    assert told.names == made.names
    pairs = zip(told.types, made.types, strict=True)
    assert all(one == other or is_tensor(one) for one, other in pairs)
    for name in {name for names in step.reads.values() for name in names}:
        with pytest.raises((UserCodeBroke, InvalidSpec), match=name) as caught:
            step.build()(table.drop_columns([name]))
        assert "__" not in str(caught.value)


WITHOUT_VALUES = {
    "csv": "id,gone\n1,\n2,\n",
    "jsonl": '{"id": 1, "gone": null}\n{"id": 2, "gone": null}\n',
}


@pytest.mark.parametrize("kind", [*WITHOUT_VALUES, "parquet"])
def test_a_night_whose_files_have_no_value_in_a_column_is_filtered(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / f"in/a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"id": [1, 2], "gone": [None, None]}), file)
    else:
        file.write_text(WITHOUT_VALUES[kind])
    spec = classify_spec(
        tmp_path,
        source={"kind": kind, "path": str(tmp_path / "in")},
        steps=[{"kind": "filter", "expression": "gone is None or gone > 5"}],
    )
    assert run_spec(spec)[1].rows["written"] == 2


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_night_without_a_value_in_a_column_makes_no_text_of_the_next_ones_numbers(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    spec = classify_spec(tmp_path, sink={"kind": kind, "path": str(tmp_path / "out")})
    for night, gone in enumerate([None, "at noon"], 1):
        rows = pa.table({"id": [night], "gone": [gone]})
        pq.write_table(rows, tmp_path / f"in/{night}.parquet")
        assert run_spec(spec)[1].version == night
    assert published_rows(spec)["gone"].to_pylist() == [None, "at noon"]
    pq.write_table(pa.table({"id": [3], "gone": [2.5]}), tmp_path / "in/3.parquet")
    with pytest.raises(SchemaMismatch, match=r"gone had no value.* here it is double: .*--replace"):
        run_spec(spec)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Numbers and texts in Parquet, and trees that tell two classes by columns of their own."""
    import xgboost

    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"id": [1, 2], "x": [1.0, 2.0], "text": ["a", "b"]}), tmp_path / "in/a.parquet"
    )
    data = xgboost.DMatrix(np.eye(2), [0, 1], feature_names=["x", "width"])
    xgboost.train({"objective": "binary:logistic"}, data, 1).save_model(tmp_path / "m.ubj")
    return tmp_path


def spec(folder: Path, *steps: dict[str, Any], **changes: Any) -> BatchInferenceSpec:
    return spec_of(folder / "in", steps=list(steps), **changes)


@pytest.mark.parametrize("name", [ROW, "__deleted"])
def test_a_column_with_a_name_of_ours_is_refused(folder: Path, name: str) -> None:
    rows = pa.table({name: [1, 2], "__index_level_0__": [0, 1], "x": [1.0, 2.0]})
    pq.write_table(rows, folder / "in/a.parquet")
    message = rf"^source\.columns: '{name}' is a column of the source, .* reserved: list the other"
    with pytest.raises(InvalidSpec, match=message):
        make_plan(spec(folder))
    source = {"kind": "parquet", "path": str(folder / "in"), "columns": ["x"]}
    make_plan(spec(folder, source=source))
    # What an earlier release has begun goes on.
    refuse_unknown_columns(spec(folder), {"schema": rows.schema.serialize().to_pybytes().hex()})


SELECT = {"kind": "select", "columns": ["id", "x"]}
RENAME = {"kind": "rename", "columns": {"x": "width"}}
WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a misspelt column": (
        [{"kind": "select", "columns": ["id", "txt"]}],
        r"steps\.0\.columns: 'txt' is read by select but is not among the columns at that point: "
        r"id, x, text; did you mean text\?$",
    ),
    "a column of no like": (
        [{"kind": "filter", "expression": "id > 1 and height < 3"}],
        r"steps\.0\.expression: 'height' .*: id, x, text$",
    ),
    "our own": (
        [{"kind": "filter", "expression": "__row > 1"}],
        r"steps\.0\.expression: '__row' .*: id, x, text$",
    ),
    "dropped before": (
        [SELECT, {"kind": "chunk_text"}],
        r"steps\.1\.column: 'text' is read by chunk_text .*: id, x$",
    ),
    "renamed before": (
        [RENAME, {"kind": "filter", "expression": "x > 1"}],
        r"steps\.1\.expression: 'x' .*: id, width, text$",
    ),
    "no path": (
        [{"kind": "label_from_path"}],
        r"steps\.0\.kind: 'path' is read by label_from_path",
    ),
    "a name that is taken": (
        [{"kind": "rename", "columns": {"x": "id"}}],
        r"steps\.0: 'id' would name two columns after rename",
    ),
}


@pytest.mark.parametrize(("steps", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_step_that_names_a_column_that_is_not_there_is_refused_by_the_plan(
    folder: Path, steps: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(InvalidSpec, match=message) as caught:
        make_plan(spec(folder, *steps), save=False)
    assert ", __" not in str(caught.value)


def test_what_the_model_reads_is_followed_through_the_steps(folder: Path) -> None:
    trees = {"kind": "xgboost", "path": str(folder / "m.ubj"), "columns": ["x", "width"]}
    with pytest.raises(
        InvalidSpec, match=r"model\.columns: 'width' is read by xgboost .*: id, x, text"
    ):
        make_plan(spec(folder, model=trees), save=False)
    with pytest.raises(InvalidSpec, match=r"model\.columns: 'x' is read by xgboost .*: id, width"):
        make_plan(spec(folder, RENAME, model=trees), save=False)
    own = {"kind": "xgboost", "path": trees["path"]}
    with pytest.raises(InvalidSpec, match=r"model\.columns: 'width' is read by xgboost .*: id, x"):
        make_plan(spec(folder, model=own), save=False)
    both = {"kind": "rename", "columns": {"id": "width"}}
    assert len(make_plan(spec(folder, both, model=own), save=False).plan.shards) == 1
    assert len(make_plan(spec(folder, both, model=trees), save=False).plan.shards) == 1


HUB = {"kind": "huggingface", "name_or_path": "someone/model"}
TEXTS_MODEL = {**HUB, "task": "text-classification"}
IMAGES_MODEL = {**HUB, "task": "image-classification"}
MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "a filter": (
        {"steps": [RENAME, {"kind": "filter", "expression": "width > 1 and text > 5"}]},
        r"steps\.filter\.expression: 'width > 1 and text > 5' does not fit .*text: string",
    ),
    "what is cut": (
        {"steps": [{"kind": "chunk_text", "column": "x"}]},
        r"steps\.chunk_text\.column: 'x' is double, not text$",
    ),
    "what is cut, of images": (
        {"steps": [{"kind": "tile_images", "column": "text", "width": 2}]},
        r"steps\.tile_images\.column: 'text' is string, not images$",
    ),
    "what is written": (
        {"steps": [{"kind": "template", "template": "{data}"}]},
        r"steps\.template\.template: '\{data\}' 'data' is binary, not text$",
    ),
    "how it is written": (
        {"steps": [{"kind": "template", "template": "No. {id:d}: {x:d}"}]},
        r"steps\.template\.template: .* 'd' is not a format for float, the type of 'x': ",
    ),
    "how a text is written": (
        {"steps": [{"kind": "template", "template": "{id:d}: {text:.2f}"}]},
        r"steps\.template\.template: .* '\.2f' is not a format for str, the type of 'text': ",
    ),
    "texts": (
        {"model": {**TEXTS_MODEL, "column": "id"}},
        r"model\.column: 'id' is int64, not text; use another column",
    ),
    "images": (
        {"model": {**IMAGES_MODEL, "column": "text"}},
        r"model\.column: 'text' is string, not images: it must have files, or arrays from a step"
        r"; read the files",
    ),
    "a text to PyTorch": (
        {"model": {"kind": "torch", "path": "m.pt2", "inputs": {"words": "text"}}},
        r"model\.inputs: 'text' is string, not numbers; leave it out",
    ),
    "numbers": (
        {"model": {"kind": "torch", "path": "m.pt2", "columns": ["id", "text"]}},
        r"model\.columns: 'text' is string, not numbers; leave it out",
    ),
}


@pytest.mark.parametrize(("changes", "message"), MISFITS.values(), ids=MISFITS.keys())
def test_a_column_of_a_type_that_is_of_no_use_is_refused(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    schema = pa.schema([("id", "int64"), ("x", "float64"), ("text", "string"), ("data", "binary")])
    held = {"schema": schema.serialize().to_pybytes().hex()}
    with pytest.raises(InvalidSpec, match=message):
        refuse_unknown_columns(spec_of(folder / "in", **changes), held)


@pytest.mark.parametrize(
    "steps", [[], [{"kind": "filter", "expression": "x > 1.5"}]], ids=["the model", "a step"]
)
def test_where_numbers_are_wanted_the_word_that_makes_text_of_them_is_told(
    folder: Path, steps: list[dict[str, Any]]
) -> None:
    (folder / "csv").mkdir()
    (folder / "csv/a.csv").write_text("id,x,width\n1,unknown,\n2,1.5,\n3,2,\n")
    source: dict[str, Any] = {"kind": "csv", "path": str(folder / "csv")}
    parts = {"model": {"kind": "xgboost", "path": str(folder / "m.ubj")}}
    message = (
        r"string.*\. 'x' is read as text, because 'unknown' is among its numbers "
        r"\(.*/a\.csv, row 0\): give it a type, such as source\.types: "
        r"\{x: float64\}, .*null_values: \['', 'unknown'\]"
    )
    with pytest.raises(InvalidSpec, match=message):
        make_plan(spec(folder, *steps, source=source, **parts), save=False)
    for way_out in ({"types": {"x": "float64"}}, {"null_values": ["", "unknown"]}):
        make_plan(spec(folder, *steps, source={**source, **way_out}, **parts), save=False)


def test_columns_of_types_that_are_of_use_pass(folder: Path) -> None:
    schema = pa.schema([("id", "int64"), ("text", "large_string"), ("data", "binary")])
    held = {"schema": schema.serialize().to_pybytes().hex()}
    for model in (
        TEXTS_MODEL,
        {**IMAGES_MODEL, "column": "data"},
        {"kind": "torch", "path": "m.pt2", "columns": ["id"]},
    ):
        refuse_unknown_columns(spec_of(folder / "in", model=model), held)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"column": "review.text"},
            r"^model\.column: 'review.text' .*; a field of the struct",
        ),
        ({"column": "id.text"}, r": id, review$"),
        (
            {"column": "review", "pair_column": "reviiew"},
            r"^model\.pair_column: 'reviiew' .*review\?$",
        ),
    ],
)
def test_the_way_out_of_a_column_that_is_none(
    folder: Path, model: dict[str, Any], message: str
) -> None:
    schema = pa.schema([("id", "string"), ("review", pa.struct([("text", "string")]))])
    held = {"schema": schema.serialize().to_pybytes().hex()}
    with pytest.raises(InvalidSpec, match=message):
        refuse_unknown_columns(spec_of(folder / "in", model={**TEXTS_MODEL, **model}), held)


LABELED = {"labels": ["no", "yes"]}
UNPUBLISHED: dict[str, tuple[dict[str, Any], str]] = {
    "to keep": (
        {"sink": {"keep_columns": ["id", "txt"]}},
        r"sink\.keep_columns: 'txt' is not among the columns of the output: id, x, text, "
        r"prediction; did you mean text\?$",
    ),
    "to part by": (
        {"sink": {"partition_by": ["id", "day"]}},
        r"sink\.partition_by: 'day' is not among the columns of the output: .*, prediction$",
    ),
    "to part by, of the labels": (
        {"sink": {"partition_by": ["prediction"]}, "model": LABELED},
        r"sink\.partition_by: 'prediction' .*, predicted_label, predicted_score; did you mean",
    ),
    "to give a type": (
        {"sink": {"types": {"id": "int32", "predicted": "float32"}}},
        r"sink\.types: 'predicted' is not among the columns of the output: .*; did you mean predi",
    ),
    "a key that is not kept": (
        {"sink": {"kind": "delta", "mode": "upsert", "key": ["id"], "keep_columns": ["x"]}},
        r"sink\.key: 'id' .*output: x, prediction; add it to sink\.keep_columns$",
    ),
    "the newest": (
        {"sink": {"kind": "delta", "mode": "upsert", "key": ["id"], "newest_by": "at"}},
        r"sink\.newest_by: 'at' is not among",
    ),
    "what a gate compares": (
        {"gates": [{"kind": "rows", "minimum": 1}, {"kind": "accuracy", "minimum": 0.5}]},
        r"gates\.1\.label: 'label' is not among the columns of the output: ",
    ),
    "what a gate bounds": (
        {"gates": [{"kind": "bounds", "column": "predictions", "minimum": 0}]},
        r"gates\.0\.column: 'predictions' .*; did you mean prediction\?$",
    ),
    "what a gate cannot bound": (
        {"gates": [{"kind": "bounds", "column": "text", "minimum": 0}]},
        r"gates\.0\.column: 'text' is .*string, not numbers: use another column$",
    ),
    "a name that the model gives": (
        {"steps": [{"kind": "rename", "columns": {"text": "prediction"}}]},
        r"column: 'prediction' is also the name of a column that the model makes; rename",
    ),
}


@pytest.mark.parametrize(("changes", "message"), UNPUBLISHED.values(), ids=UNPUBLISHED.keys())
def test_the_output_has_the_columns_that_sink_and_gates_name(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    parts: dict[str, dict[str, Any]] = {
        "model": {"kind": "xgboost", "path": str(folder / "m.ubj"), "columns": ["x", "id"]},
        "sink": {"kind": "parquet", "path": str(folder / "out")},
    }
    merged = {name: {**part, **changes.get(name, {})} for name, part in parts.items()}
    with pytest.raises(InvalidSpec, match=message):
        make_plan(spec_of(folder / "in", **{**changes, **merged}), save=False)


def test_what_the_output_has_may_be_named(folder: Path) -> None:
    sink = {"kind": "delta", "path": str(folder / "out"), "mode": "upsert", "key": ["id"]}
    sink |= {"newest_by": "prediction", "partition_by": ["text"], "keep_columns": ["id", "text"]}
    gates = [{"kind": "bounds", "column": "prediction", "minimum": 0}]
    gates += [
        {"kind": "nulls", "column": "text", "max_fraction": 0},
        {"kind": "rows", "minimum": 1},
    ]
    model = {"kind": "xgboost", "path": str(folder / "m.ubj"), "columns": ["x", "id"]}
    planned = make_plan(spec(folder, sink=sink, gates=gates, model=model), save=False)
    assert len(planned.plan.shards) == 1


def test_media_that_the_model_never_sees_may_have_any_name(folder: Path) -> None:
    boxes = {"kind": "huggingface", "task": "object-detection", "name_or_path": "a/b"}
    given = spec(folder, source={"kind": "huggingface_dataset", "path": "/in"}, model=boxes)
    refuse_unpublished(given, ["image", "labels"], ("boxes", "labels", "scores"))
    numbers = spec(folder, model={"kind": "xgboost", "path": "m.ubj"})
    with pytest.raises(InvalidSpec, match="input column: 'labels' is also the name"):
        refuse_unpublished(numbers, ["x", "labels"], ("labels",))


def test_what_a_model_of_the_users_adds_nobody_knows(folder: Path) -> None:
    sink = {"kind": "parquet", "path": str(folder / "out"), "partition_by": ["whatever"]}
    assert len(make_plan(spec(folder, sink=sink), save=False).plan.shards) == 1


def test_after_code_of_the_user_nothing_is_said(folder: Path) -> None:
    own = {"kind": "python", "function": "predictors:fail_on_500"}
    wrong = {"kind": "select", "columns": ["nobody_knows"]}
    assert len(make_plan(spec(folder, own, wrong), save=False).plan.shards) == 1
    with pytest.raises(InvalidSpec, match=r"steps\.0\.columns: 'nobody_knows'"):
        make_plan(spec(folder, wrong, own), save=False)


def test_a_redrive_is_planned_no_less_carefully(folder: Path) -> None:
    picky = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [2.0]}}
    budget = {"max_rejected_fraction": 0.5}
    planned = make_plan(spec(folder, model=picky, errors=budget))
    run_attempt(planned)
    publish_planned(planned)
    wrong = spec(folder, {"kind": "select", "columns": ["y"]})
    with pytest.raises(InvalidSpec, match=r"steps\.0\.columns: 'y' is read by select"):
        make_plan(wrong, RunOptions(redrive=True), save=False)


def test_a_redrive_asks_only_for_what_the_runs_had_that_it_redoes(folder: Path) -> None:
    picky = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [2.0]}}
    sink = {"kind": "parquet", "path": str(folder / "out"), "keep_columns": ["id", "x"]}
    usual = spec(folder, model=picky, sink=sink, errors={"max_rejected_fraction": 0.5})
    rows = {"id": [1, 2], "x": [1.0, 2.0]}
    for file, table in {"a": rows, "b": {**rows, "y": [1, 1]}}.items():
        pq.write_table(pa.table(table), folder / f"in/{file}.parquet")
        planned = make_plan(usual)
        run_attempt(planned)
        publish_planned(planned)
    pq.write_table(pa.table({**rows, "z": [1, 1]}), folder / "in/a.parquet")
    select = {"kind": "select", "columns": ["id", "x", "y"]}
    planned = make_plan(spec(folder, select, sink=sink), RunOptions(redrive=True), save=False)
    assert planned.plan.shards["path"].to_pylist() == [str(folder / "in/b.parquet")]
    assert planned.inputs_skipped == 1


@pytest.mark.parametrize(
    ("sink", "gates", "refused"),
    [
        ({"types": {"label": "string"}}, [{"column": "label", "max_fraction": 1}], ""),
        ({"types": {"labels": "string"}}, [], "sink.types: 'labels'"),
        ({}, [{"column": "labels", "max_fraction": 1}], "gates.0.column: 'labels'"),
        ({"evolve_schema": False}, [{"column": "label", "max_fraction": 1}], "gates.0.column"),
        # Where a row goes is not told by what it lacks.
        ({"partition_by": ["label"]}, [], "sink.partition_by: 'label'"),
        ({"mode": "upsert", "key": ["label"]}, [], "sink.key: 'label'"),
    ],
)
def test_what_a_growing_table_has_is_there_on_nights_that_lack_it(
    folder: Path, sink: dict[str, Any], gates: list[dict[str, Any]], refused: str
) -> None:
    given = spec_of(
        folder / "in",
        sink={"kind": "delta", "path": "out", "evolve_schema": True, **sink},
        gates=[{"kind": "nulls", **each} for each in gates],
    )
    published = pa.schema([("x", pa.float64()), ("label", pa.string())]).serialize().to_pybytes()
    lasting = lasting_columns(given, published)
    assert lasting_columns(given, None) == []
    with pytest.raises(InvalidSpec, match=f"^{refused}") if refused else nullcontext():
        refuse_unpublished(given, ["x"], ("prediction",), lasting)
