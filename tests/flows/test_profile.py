"""What a run tells of its speed: what the model ran on, and profiles where they are asked for."""

import cProfile
import gzip
import json
import pstats
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.kinds.models.runtimes.compilers import COMPILERS, Tensors
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.kinds.digits import digits_module, rows_of, unseen

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def off_by_a_thousandth(module: Any, _example: Tensors, _num_threads: int) -> Any:
    return lambda arguments: [each * 1.001 for each in module(*arguments)]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchInferenceSpec:
    """Digits for a compiled model that is not to be trusted."""
    import torch

    monkeypatch.setitem(COMPILERS, "openvino", off_by_a_thousandth)
    torch.save(digits_module().state_dict(), tmp_path / "weights.pt")
    (tmp_path / "in").mkdir()
    pq.write_table(rows_of(pixels=unseen()).drop_columns("__row"), tmp_path / "in" / "a.parquet")
    model = {
        "kind": "torch",
        "path": str(tmp_path / "weights.pt"),
        "class": "tests.kinds.torch_code:Digits",
        "columns": ["pixels"],
        "runtime": "openvino",
    }
    steps = [{"kind": "rename", "columns": {"pixels": "pixels"}}]
    return spec_of(tmp_path / "in", model=model, steps=steps)


def test_reports_say_what_the_model_ran_on_and_where_profiles_lie(
    spec: BatchInferenceSpec,
) -> None:
    from flows.batch_inference import batch_inference
    from flows.printed_report import runtime_line

    report = batch_inference(spec, profile=True)
    (used,) = report["runtimes"]
    assert (used["asked"], used["used"], used["precision"]) == ("openvino", "eager", "float32")
    assert used["problem"] == "differs from eager by 1.0e-03 of an output's largest value"
    assert runtime_line(report) == {"runtime": f"eager instead of openvino: {used['problem']}"}
    assert json.loads(Path(report["manifest"]).read_text())["runtimes"] == [used]
    page = Path(report["report"]).read_text()
    assert "eager, float32 on cpu, not on openvino as asked: differs from eager" in page

    folder = Path(report["profile"])
    works = {"read": "read_rows", "preprocess": "run", "infer": "predict", "write": "write_batches"}
    if sys.version_info >= (3, 12):
        works = {}  # a process has one profiler, which not each of its stages may get
    for stage, function in works.items():
        (file,) = folder.glob(f"{stage}-*.pstats")
        assert function in {name for _, _, name in pstats.Stats(str(file)).stats}  # type: ignore[attr-defined]
        assert file.with_suffix(".txt").name in page
    (trace,) = folder.glob("model-*.trace.json.gz")
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert "aten::linear" in {event.get("name") for event in events}
    assert trace.name in page


def test_a_run_that_asks_for_no_profile_leaves_none(spec: BatchInferenceSpec) -> None:
    from flows.batch_inference import batch_inference

    report = batch_inference(spec)
    assert report["profile"] is None
    assert not [*Path(f"{spec.sink.path}.state").glob("runs/*/profile")]


def test_who_finds_another_profiler_at_work_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a second thread does from Python 3.12 on, where there is one in a process."""

    def refuse(profiler: cProfile.Profile) -> None:
        raise ValueError("Another profiling tool is already active")

    monkeypatch.setattr("cProfile.Profile.enable", refuse, raising=False)
    rows = [{"id": number, "x": float(number)} for number in range(4)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in" / "a.parquet")
    from flows.batch_inference import batch_inference

    assert batch_inference(spec_of(tmp_path / "in"), profile=True)["rows"]["written"] == 4
