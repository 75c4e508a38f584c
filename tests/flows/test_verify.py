"""Published rows predicted again: the same ones let runs go on under another config."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from flows.backfill import backfill
from flows.batch_inference import batch_inference
from flows.redrive import redrive
from flows.verify import verify
from tasks.errors import InvalidSpec, PredictionsDiffer
from tasks.kinds.clusters import LocalCluster
from tasks.ray_job.job import output_of
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

DOUBLES = """
class Model:
    def __call__(self, batch):
        return {"doubled": batch["x"] * 2}
"""
COMMENTED = DOUBLES.replace("return", "# twice as much\n        return")
NEARLY = DOUBLES.replace("* 2", "* 2 * (1 + 1e-6)")
OTHERWISE = DOUBLES.replace("* 2", "* 2 + (batch['x'] > 990)")
PICKY = DOUBLES.replace("return", "assert 5 not in batch['x'], 'no fives'\n        return")


def with_code(numbers: Path, code: str, **changes: Any) -> BatchInferenceSpec:
    """The spec whose model is in a module with this code."""
    folder = numbers.parent / "code"
    folder.mkdir(exist_ok=True)
    (folder / "doubling_model.py").write_text(code)
    sys.modules.pop("doubling_model", None)  # as in another process
    model = {"kind": "python", "class": "doubling_model:Model"}
    return spec_of(numbers, model=model, environment={"working_dir": str(folder)}, **changes)


def add_file(numbers: Path, number: int = 10) -> None:
    ids = list(range(number * 100, number * 100 + 100))
    table = pa.table({"id": ids, "x": [float(each) for each in ids]})
    pq.write_table(table, numbers / f"{number}.parquet")


def page_of(name: str) -> str:
    only = ArtifactFilter(key=ArtifactFilterKey(any_=[f"{name}-verify"]))
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=only)
    return str(max(found, key=lambda each: each.updated or 0).data)


def left_behind(spec: BatchInferenceSpec) -> list[Path]:
    return list(Path(f"{spec.sink.path}.state").rglob("previews/*/*"))


def test_rows_that_come_out_the_same_are_said_to(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    before = published(spec)
    found = verify(spec, rows=40)
    assert (found["same"], found["accepted"], found["config"]["version"]) == (True, False, None)
    assert found["rows"] == {
        "published": 1000,
        "compared": 40,
        "differ": 0,
        "inputs_changed_or_gone": 0,
    }
    assert published(spec) == before
    assert left_behind(spec) == []


def test_another_config_goes_on_once_its_rows_have_come_out_the_same(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    add_file(numbers)
    spec = with_code(numbers, COMMENTED)
    with pytest.raises(InvalidSpec, match=r"another config published version 1 .* verify SPEC"):
        batch_inference(spec)
    found = verify(spec)
    assert found["config"] == {"version": 1, "differs": ["the code of steps or model"]}
    assert not found["accepted"]
    with pytest.raises(InvalidSpec, match="another config published version 1"):
        batch_inference(spec)
    assert verify(spec, accept=True)["accepted"]
    assert "runs go on under this config" in page_of(spec.name)
    report = batch_inference(spec)
    assert (report["version"], report["rows"]["written"]) == (2, 100)
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1100)]
    # And it is one with the config that was there before.
    assert backfill(spec)["periods"][0]["told"].startswith("up to date")
    assert verify(spec, accept=True)["config"]["version"] is None
    add_file(numbers, 11)
    assert batch_inference(with_code(numbers, DOUBLES))["version"] == 3


def test_three_configs_are_one_where_each_is_one_with_the_next(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    for number, code in enumerate((COMMENTED, COMMENTED + "\n# and so on"), start=10):
        add_file(numbers, number)
        spec = with_code(numbers, code)
        verify(spec, accept=True)
        batch_inference(spec)
    assert batch_inference(with_code(numbers, DOUBLES))["published"] is False
    with pytest.raises(InvalidSpec, match="another config published version 1"):
        batch_inference(with_code(numbers, OTHERWISE))


def test_rows_that_come_out_otherwise_let_nothing_go_on(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    spec = with_code(numbers, OTHERWISE)
    with pytest.raises(PredictionsDiffer) as refused:
        verify(spec, rows=80, accept=True)
    # The last of eight places is the last ten rows.
    assert "9 of 80 published rows come out otherwise now" in str(refused.value)
    assert "doubled in 9 rows, by up to 0.000505 (" in str(refused.value)
    assert "9.parquet, row 91: was 1982, is 1983)" in str(refused.value)
    assert "80 published rows, 9 come out otherwise" in page_of(spec.name)
    with pytest.raises(InvalidSpec, match="another config published version 1"):
        batch_inference(spec)
    assert left_behind(spec) == []


def test_floats_may_differ_by_as_much_as_is_said(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    spec = with_code(numbers, NEARLY)
    largest = verify(spec)["columns"]["doubled"]["largest_difference"]
    assert largest == pytest.approx(1e-6, rel=0.01)
    with pytest.raises(PredictionsDiffer, match="beyond a tolerance of 0: doubled in 63 rows"):
        verify(spec, tolerance=0)
    with pytest.raises(InvalidSpec, match="tolerance: -1"):
        verify(spec, tolerance=-1)


def test_rows_that_are_set_aside_now_come_out_otherwise(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    with pytest.raises(PredictionsDiffer, match=r"1 of 64 .* set aside by infer: .*no fives"):
        verify(with_code(numbers, PICKY))


def test_rows_of_inputs_that_have_changed_are_left_out(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    pq.write_table(pa.table({"id": [1, 2], "x": [7.0, 8.0]}), numbers / "0.parquet")
    rows = verify(spec)["rows"]
    assert (rows["compared"], rows["inputs_changed_or_gone"]) == (56, 8)
    for file in numbers.iterdir():
        file.unlink()
    with pytest.raises(InvalidSpec, match=r"has none of the inputs of 64 published rows any more"):
        verify(spec)


def test_published_files_that_others_have_changed_cannot_be_compared_with(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    first = min(Path(spec.sink.path).glob("*.parquet"))
    whole = pq.read_table(first)
    pq.write_table(whole.slice(1), first)
    with pytest.raises(InvalidSpec, match=rf"{first}.*\(49 rows instead of 50\)"):
        verify(spec)
    first.unlink()
    with pytest.raises(InvalidSpec, match=rf"{first}.* others have moved or rewritten it"):
        verify(spec)
    assert left_behind(spec) == []


def test_all_rows_are_compared_where_more_are_asked_for(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    assert verify(spec, rows=2000)["rows"]["compared"] == 1000


def test_nothing_is_compared_where_nothing_is_published(numbers: Path) -> None:
    with pytest.raises(InvalidSpec, match="has no published rows to compare with"):
        verify(with_code(numbers, DOUBLES))


def test_what_decides_how_rows_lie_is_not_accepted_by_their_values(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    sink = {"kind": "parquet", "path": str(numbers.parent / "out"), "compression": "snappy"}
    spec = with_code(numbers, COMMENTED, sink=sink)
    with pytest.raises(InvalidSpec, match=r"another config, .* sink\.compression was .*snappy"):
        verify(spec, accept=True)
    assert verify(spec)["same"]


def test_rows_of_a_redrive_are_of_any_config_and_not_compared(numbers: Path) -> None:
    loose = {"max_rejected_fraction": 0.1}
    first = with_code(numbers, PICKY, errors=loose)
    batch_inference(first)
    other = with_code(numbers, DOUBLES.replace("* 2", "* 3"), errors=loose)
    assert redrive(other)["rows"]["written"] == 1
    assert published(first)[5]["doubled"] == 15.0
    rows = verify(with_code(numbers, PICKY, errors=loose), rows=2000)["rows"]
    assert rows["compared"] == 999


def test_rows_are_compared_in_the_columns_and_folders_of_the_output(numbers: Path) -> None:
    sink = {
        "kind": "parquet",
        "path": str(numbers.parent / "out"),
        "keep_columns": ["id", "parity"],
        "partition_by": ["parity"],
    }
    steps = [{"kind": "python", "function": "parting:part"}]
    (numbers.parent / "code").mkdir()
    (numbers.parent / "code/parting.py").write_text(
        "def part(batch):\n    return {**batch, 'parity': batch['id'] % 2}\n"
    )
    spec = with_code(numbers, DOUBLES, sink=sink, steps=steps)
    batch_inference(spec)
    assert verify(spec)["same"]
    with pytest.raises(PredictionsDiffer, match="doubled in 5 rows"):
        verify(with_code(numbers, OTHERWISE, sink=sink, steps=steps))


def test_what_was_seen_is_kept_beside_the_ledger(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    spec = with_code(numbers, COMMENTED)
    found = verify(spec, accept=True)
    storage, output = output_of(spec)
    (word,) = (json.loads(storage.read(s.path)) for s in storage.list(output.equal_configs))
    assert (word["rows"], word["flow_run"]) == (64, found["flow_run_id"])
    assert word["differs"] == ["the code of steps or model"]


def test_of_an_upsert_the_rows_that_newer_ones_of_their_key_have_left_are_compared(
    numbers: Path,
) -> None:
    """Each input row becomes two, and those of the last 150 are left."""
    code = numbers.parent / "code"
    code.mkdir()
    (code / "doubling_steps.py").write_text(
        "import pyarrow as pa\n\n\n"
        "def twice(batch):\n"
        "    rows = sorted([*range(len(batch['id']))] * 2)\n"
        "    key = [f'{batch[\"id\"][row] % 150}-{at % 2}' for at, row in enumerate(rows)]\n"
        "    return {'__row': batch['__row'][rows], 'x': batch['x'][rows], 'key': key}\n"
    )
    steps: list[dict[str, Any]] = [
        {"kind": "python", "function": "doubling_steps:twice", "with_row_ids": True}
    ]
    sink: dict[str, Any] = {"kind": "delta", "path": str(numbers.parent / "out")}
    sink |= {"mode": "upsert", "key": ["key"], "newest_by": "x"}
    spec = with_code(numbers, DOUBLES, steps=steps, sink=sink)
    report = batch_inference(spec)
    assert report["rows"]["written"] == 300
    rows = verify(spec, rows=1000)["rows"]
    assert (rows["published"], rows["differ"]) == (300, 0)
    assert rows["compared"] == 150
    with pytest.raises(PredictionsDiffer, match=r"9 of 150 .* doubled in 9 rows"):
        verify(with_code(numbers, OTHERWISE, steps=steps, sink=sink), rows=1000)


@pytest.mark.ray
def test_rows_come_out_the_same_on_ray(numbers: Path, ray_address: str) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    there = spec.model_copy(update={"cluster": LocalCluster(address=ray_address)})
    assert verify(there, on_cluster=True)["rows"] | {"published": 0} == {
        "published": 0,
        "compared": 64,
        "differ": 0,
        "inputs_changed_or_gone": 0,
    }
