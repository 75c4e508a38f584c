"""Columns that cannot be what is published, by the plan."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import SchemaMismatch
from tasks.kinds.column_types import NO_VALUE
from tasks.kinds.sources.listing import listing_of
from tasks.known_types import refuse_unpublishable
from tasks.plan import make_plan
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
    "gone": ("2.5", "^gone had no value, .* and was taken for string; here it is double: .*--repl"),
    "zip": ("501", "^zip is int64 in the inputs, and string in what is published: .*source.types"),
    "at": ("7", "^at is int64 in the inputs, and timestamp.*UTC. in what is published: neither"),
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
        {"sink": {"kind": "parquet", "path": "out", "keep_columns": ["x"]}},
        {"steps": [{"kind": "rename", "columns": {"gone": "new"}}]},
        {"steps": [{"kind": "filter", "expression": "gone is None"}]},
        {"model": {"kind": "python", "class": "predictors:Double"}},
    ],
)
def test_what_may_yet_be_published_is_left_to_the_write(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    refuse(tmp_path, kind, {"gone": "2.5"}, **changes)


BLANK = {"jsonl": {"source": {"columns": ["x", "gone", "at"]}}}
"""Without a row, who names them alone knows of columns."""


@pytest.mark.parametrize("kind", ROWS)
def test_a_column_without_a_value_fits_whatever_is_published(kind: str, tmp_path: Path) -> None:
    refuse(tmp_path, kind, {})
    refuse_of(tmp_path, kind, "x,gone,zip,at\n" if kind == "csv" else "", **BLANK.get(kind, {}))


def test_a_night_of_numbers_after_one_without_is_refused_before_the_model_predicts(
    tmp_path: Path,
) -> None:
    import xgboost

    xgboost.train({}, xgboost.DMatrix(np.eye(1), [1], feature_names=["x"]), 1).save_model(
        tmp_path / "m.ubj"
    )
    (tmp_path / "in").mkdir()
    source = {"kind": "csv", "path": str(tmp_path / "in")}
    spec = spec_of(tmp_path / "in", source=source, model={**TREES, "path": str(tmp_path / "m.ubj")})
    (tmp_path / "in/1.csv").write_text("x,gone\n1,\n")
    assert run_spec(spec)[1].version == 1
    (tmp_path / "in/2.csv").write_text("x,gone\n2,2.5\n")
    with pytest.raises(SchemaMismatch, match=r"^gone is double in the inputs, and string "):
        make_plan(spec)
    assert not [*tmp_path.glob("out.state/*/*/staging/*")]
