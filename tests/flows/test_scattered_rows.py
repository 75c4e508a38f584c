"""Rows that a filter leaves here and there: what goes by their ids, which are packed."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.batch_inference import batch_inference
from flows.redrive import redrive
from flows.verify import verify
from tasks.protocol.layout import OutputFolder
from tasks.protocol.records import load_records
from tasks.protocol.storage import open_storage
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

ROWS = 6_000
CODE = """
from pathlib import Path

LIMIT = Path(__file__).with_name("limit")


class Model:
    def __call__(self, batch):
        if (batch["x"] > float(LIMIT.read_text())).any():
            raise ValueError("too much")
        return {"doubled": batch["x"] * 2}
"""


@pytest.fixture
def spec(tmp_path: Path) -> BatchInferenceSpec:
    """Two files, of which each second row at random goes through a filter."""
    for number in range(2):
        write(tmp_path, number, seed=number)
    code = tmp_path / "code"
    code.mkdir()
    (code / "scattered_model.py").write_text(CODE)
    return spec_of(
        tmp_path / "numbers",
        model={"kind": "python", "class": "scattered_model:Model"},
        environment={"working_dir": str(code)},
        steps=[{"kind": "filter", "expression": "x > 0.5"}],
        stages={"read": {"rows_per_batch": 4_000}},
        errors={"max_rejected_fraction": 0.1},
    )


def write(folder: Path, number: int, seed: int) -> None:
    (folder / "numbers").mkdir(exist_ok=True)
    x = np.random.default_rng(seed).random(ROWS)
    table = pa.table({"id": np.arange(ROWS) + number * ROWS, "x": x})
    pq.write_table(table, folder / "numbers" / f"{number}.parquet")


def set_limit(folder: Path, limit: float) -> None:
    (folder / "code" / "limit").write_text(str(limit))


def wanted(folder: Path, limit: float = 1.0) -> list[dict[str, Any]]:
    """What Python says is published."""
    rows = pq.read_table(folder / "numbers").to_pylist()
    chosen = [each for each in rows if 0.5 < each["x"] <= limit]
    return [
        {**each, "doubled": 2 * each["x"]} for each in sorted(chosen, key=lambda row: row["id"])
    ]


def test_scattered_rows_are_published_replaced_redriven_and_verified(
    spec: BatchInferenceSpec, tmp_path: Path
) -> None:
    set_limit(tmp_path, 0.95)
    report = batch_inference(spec)
    assert published(spec) == wanted(tmp_path, 0.95)
    left = wanted(tmp_path)
    aside = len(left) - len(wanted(tmp_path, 0.95))
    expected = {"read": 2 * ROWS, "written": len(left) - aside, "rejected": aside}
    assert report["rows"] == {**expected, "filtered": 2 * ROWS - len(left)}
    storage, path = open_storage(spec.sink.path)
    records = load_records(storage, OutputFolder(path).run(report["run_id"]))
    assert any(each.ok.packed and each.filtered.packed for each in records)

    write(tmp_path, 1, seed=9)  # the input has changed: its rows alone are replaced
    assert batch_inference(spec)["rows"]["read"] == ROWS
    assert published(spec) == wanted(tmp_path, 0.95)

    set_limit(tmp_path, 1.0)
    missing = len(wanted(tmp_path)) - len(published(spec))
    assert redrive(spec)["rows"]["read"] == missing > 0
    assert published(spec) == wanted(tmp_path)
    assert verify(spec, rows=400)["rows"]["differ"] == 0
