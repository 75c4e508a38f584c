"""Columns that cannot be what is published, by the plan."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import SchemaMismatch
from tasks.kinds.column_types import NO_VALUE
from tasks.kinds.sources.listing import listing_of
from tasks.plan import make_plan
from tasks.planning.known_types import refuse_unpublishable
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.reporting import run_spec

TREES = {"kind": "xgboost", "path": "m.ubj", "columns": ["x"]}
PUBLISHED = pa.schema(
    [
        ("x", pa.int64()),
        pa.field("gone", pa.string(), metadata=NO_VALUE),
        ("zip", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("prediction", pa.float32()),
    ]
)
ROWS = {
    "csv": "x,gone,zip,at\n1,{gone},{zip},{at}\n",
    "jsonl": '{{"x": 1, "gone": {gone}, "zip": {zip}, "at": {at}}}\n',
}
DELTA = {"kind": "delta", "path": "out"}
GROWING = {**DELTA, "evolve_schema": True}
NOTHING = {"csv": "", "jsonl": "null"}


def refuse(folder: Path, kind: str, values: dict[str, str], **changes: Any) -> None:
    """What the plan of a row does, given what is published."""
    values = dict.fromkeys(("gone", "zip", "at"), NOTHING[kind]) | values
    refuse_of(folder, kind, ROWS[kind].format(**values), **changes)


def refuse_of(folder: Path, kind: str, text: str, **changes: Any) -> None:
    """The same of a file."""
    (folder / f"a.{kind}").write_text(text)
    source = {"kind": kind, "path": str(folder), **changes.pop("source", {})}
    spec = spec_of(folder, **{"source": source, "model": TREES, **changes})
    listing = listing_of(spec.source)
    reader = spec.source.pin(listing.storage, [*listing.inputs])
    refuse_unpublishable(spec, reader, PUBLISHED.serialize().to_pybytes())


REFUSED = {
    "gone": ("2.5", "^gone had no value, .* and got the type string; here it is double: .*--repl"),
    "zip": ("501", "^zip is int64 in the inputs but string in the published rows.*source.types"),
    "at": (
        "7",
        "^at is int64 in the inputs but timestamp.*UTC. in the published rows, and neither",
    ),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(("name", "value", "message"), [(n, *e) for n, e in REFUSED.items()])
def test_values_that_cannot_be_what_is_published_are_refused_by_the_plan(
    kind: str, name: str, value: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SchemaMismatch, match=message):
        refuse(tmp_path, kind, {name: value})


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"types": {"gone": "float64"}}},  # as it is without a value
        {"sink": {**GROWING, "keep_columns": ["x"]}},
        {"steps": [{"kind": "filter", "expression": "gone is None"}]},
        {"model": {"kind": "python", "class": "predictors:Double"}},
    ],
)
def test_what_may_yet_be_published_is_left_to_the_write(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    refuse(tmp_path, kind, {"gone": "2.5"}, **changes)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("model", [TREES, {"kind": "python", "class": "predictors:Double"}])
def test_columns_that_are_not_published_are_refused_by_the_plan(
    kind: str, model: dict[str, Any], tmp_path: Path
) -> None:
    steps = [{"kind": "rename", "columns": {"gone": "new"}}]
    with pytest.raises(
        SchemaMismatch, match=r"have columns \['new'\], which the published rows do not have"
    ):
        refuse(tmp_path, kind, {"gone": "2.5"}, steps=steps, model=model)


WITHOUT_GONE = {"csv": "x,zip,at\n1,5,\n", "jsonl": '{"x": 1, "zip": "5", "at": null}'}


@pytest.mark.parametrize(
    ("kind", "changes", "ways_out"),
    [
        ("csv", {}, "add them in a step, or"),
        ("jsonl", {}, r"give their types in source\.types, add"),
        ("csv", {"sink": DELTA}, r"let rows lack them \(sink\.evolve_schema: true\), add"),
        (
            "csv",
            {"source": {"columns": ["x", "zip", "at"]}},
            r"list them in source\.columns if ",
        ),
        ("csv", {"sink": GROWING}, ""),
        ("jsonl", {"source": {"types": {"gone": "string"}}}, ""),
        ("csv", {"model": {"kind": "python", "class": "predictors:Double"}}, ""),  # may make it
    ],
)
def test_columns_that_are_published_and_not_there_are_named_by_the_plan(
    kind: str, changes: dict[str, Any], ways_out: str, tmp_path: Path
) -> None:
    message = rf"do not have the columns \['gone'\] of the published rows: {ways_out}"
    source = {"types": {"zip": "string"}, **changes.get("source", {})}
    with pytest.raises(SchemaMismatch, match=message) if ways_out else nullcontext():
        refuse_of(tmp_path, kind, WITHOUT_GONE[kind], **{**changes, "source": source})


BLANK = {"jsonl": {"source": {"columns": ["x", "gone", "zip", "at"]}}}
"""Without a row, who names them alone knows of columns."""


@pytest.mark.parametrize("kind", ROWS)
def test_a_column_without_a_value_fits_whatever_is_published(kind: str, tmp_path: Path) -> None:
    refuse(tmp_path, kind, {})
    refuse_of(tmp_path, kind, "x,gone,zip,at\n" if kind == "csv" else "", **BLANK.get(kind, {}))


def spec_with_trees(folder: Path, kind: str) -> BatchInferenceSpec:
    """What reads x and the rest of a folder's files."""
    import xgboost

    xgboost.train({}, xgboost.DMatrix(np.eye(1), [1], feature_names=["x"]), 1).save_model(
        folder / "m.ubj"
    )
    (folder / "in").mkdir()
    source = {"kind": kind, "path": str(folder / "in")}
    return spec_of(folder / "in", source=source, model={**TREES, "path": str(folder / "m.ubj")})


def test_a_night_of_numbers_after_one_without_is_refused_before_the_model_predicts(
    tmp_path: Path,
) -> None:
    spec = spec_with_trees(tmp_path, "csv")
    (tmp_path / "in/1.csv").write_text("x,gone\n1,\n")
    assert run_spec(spec)[1].version == 1
    (tmp_path / "in/2.csv").write_text("x,gone\n2,2.5\n")
    with pytest.raises(SchemaMismatch, match=r"^gone is double in the inputs but string "):
        make_plan(spec)
    assert not [*tmp_path.glob("out.state/*/*/staging/*")]


def test_a_run_that_an_earlier_release_has_planned_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It pinned text, without a word of it, where a column of JSON Lines has no value."""
    spec = spec_with_trees(tmp_path, "jsonl")
    (tmp_path / "in/1.jsonl").write_text('{"x": 1, "gone": 2.5}\n')
    assert run_spec(spec)[1].version == 1
    (tmp_path / "in/2.jsonl").write_text('{"x": 2, "gone": null}\n')
    with monkeypatch.context() as patch:
        patch.setattr("tasks.kinds.sources.jsonl.text_for_none", lambda each: each)
        with pytest.raises(SchemaMismatch, match=r"^gone is string in the inputs but double "):
            make_plan(spec)
        patch.setattr("tasks.planning.call.refuse_unpublishable", lambda *_: None)
        planned = make_plan(spec).plan
    assert make_plan(spec).plan.digest == planned.digest
    assert run_spec(spec)[1].version == 2


LAST_NIGHT = '{"x": 1, "tags": [1], "size": {"w": 2, "h": 3}, "boxes": [{"at": 4}]}\n'
EMPTY_WITHIN = [
    {"x": 2, "tags": [], "size": {"w": 2, "h": None}, "boxes": []},
    {"x": 2, "tags": [None], "size": {"w": None, "h": None}, "boxes": [{"at": None}]},
]


@pytest.mark.parametrize("row", EMPTY_WITHIN)
def test_lists_and_objects_without_a_value_within_fit_whatever_is_published(
    row: dict[str, Any], tmp_path: Path
) -> None:
    spec = spec_with_trees(tmp_path, "jsonl")
    (tmp_path / "in/1.jsonl").write_text(LAST_NIGHT)
    assert run_spec(spec)[1].version == 1
    (tmp_path / "in/2.jsonl").write_text(json.dumps(row))
    assert run_spec(spec)[1].version == 2
