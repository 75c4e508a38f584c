"""However a model breaks, a row is set aside or an error names stage, file and row."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import (
    BatchInferenceError,
    GateFailed,
    OutOfMemory,
    SchemaMismatch,
    StageFailed,
    UserCodeBroke,
)
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tasks.published import published_rows, rows_set_aside
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.reporting import run_attempt

CODE = Path(__file__).parent / "user_code"
FILES, ROWS, AT = 4, 10, 23


def spec(folder: Path, how: str, **changes: Any) -> BatchInferenceSpec:
    """Four files of ten rows; the 24th breaks the model."""
    (folder / "in").mkdir()
    for number in range(FILES):
        ids = list(range(number * ROWS, (number + 1) * ROWS))
        table = pa.table({"id": ids, "x": [float(each) for each in ids]})
        pq.write_table(table, folder / "in" / f"{number}.parquet")
    model = {"kind": "python", "class": "broken_models:Breaks", "init": {"how": how, "at": AT}}
    stages = {"read": {"rows_per_batch": ROWS}}
    return spec_of(
        folder / "in",
        model=model,
        stages=stages,
        environment={"working_dir": str(CODE)},
        errors={"max_rejected_fraction": 0.1},
        **changes,
    )


def test_nan_is_a_value_that_is_published_and_that_a_gate_holds_back(tmp_path: Path) -> None:
    gates = [{"kind": "nulls", "column": "doubled", "max_fraction": 0.2}]
    asked = spec(tmp_path, "returns NaN", gates=gates)
    planned = make_plan(asked)
    run_attempt(planned)
    with pytest.raises(GateFailed, match=r"share of rows without doubled.*0\.25.*10 of 40 rows"):
        publish_planned(planned)
    assert not Path(asked.sink.path).exists()
    publish_planned(make_plan(asked.model_copy(update={"gates": []})))
    rows = published_rows(asked).sort_by("id")
    assert rows["doubled"].null_count == 0
    nan = [number for number, value in enumerate(rows["doubled"].to_pylist()) if value != value]
    assert nan == list(range(20, 30)), "the batch that the model answered with NaN"
    assert rows_set_aside(asked) == []


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("raises", "ZeroDivisionError", "by zero"),
        ("raises what cannot be said", "Unsayable", "its __str__ raises TypeError"),
    ],
)
def test_a_row_that_raises_is_set_aside(tmp_path: Path, how: str, error: str, message: str) -> None:
    asked = spec(tmp_path, how)
    planned = make_plan(asked)
    run_attempt(planned)
    publish_planned(planned)
    [aside] = rows_set_aside(asked)
    assert (aside["source"], aside["row"], aside["stage"]) == (
        f"{tmp_path}/in/2.parquet",
        3,
        "infer",
    )
    assert aside["error_type"] == error
    assert message in aside["error_message"]
    assert sorted(published_rows(asked)["id"].to_pylist()) == [n for n in range(40) if n != AT]


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("returns fewer", UserCodeBroke, "10 rows given"),
        ("returns another type", SchemaMismatch, "doubled"),
        ("exits", StageFailed, "ended its process"),
        ("has no memory", OutOfMemory, "smaller batches no longer help"),
    ],
)
def test_what_is_no_rows_fault_names_stage_and_file(
    tmp_path: Path, how: str, kind: type[BatchInferenceError], message: str
) -> None:
    planned = make_plan(spec(tmp_path, how))
    with pytest.raises(kind, match=message) as caught:
        run_attempt(planned)
    assert caught.value.stage in ("infer", "write")
    assert "in/2.parquet" in str(caught.value)
    assert not Path(planned.spec.sink.path).exists(), "nothing is published"
