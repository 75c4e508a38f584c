"""Hugging Face models on a GPU say what they say on a CPU; needs neither Ray nor Prefect."""

from pathlib import Path

import pyarrow as pa
import pytest

from tasks.kinds.models.model import BatchLimit, Placement
from tasks.protocol.batch import RowBatch
from tasks.ray_job.stage_adapter import StageAdapter
from tests.kinds.tiny_models import save_bert, texts
from tests.kinds.tiny_tasks import TINY_TASKS, TinyTask, assert_alike
from tests.ray_job.test_stage_adapter import at_a_time

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU and a torch built for it")


@pytest.mark.parametrize("tiny", TINY_TASKS, ids=str)
def test_a_gpu_predicts_what_a_cpu_does(tiny: TinyTask, tmp_path: Path) -> None:
    model, rows = tiny.saved(tmp_path)
    there = Placement("cuda", dtype="float32", batch_size=8)  # several batches, one ahead
    assert_alike(model.predictor(there)(rows), model.predictor(Placement())(rows), 1e-3)


def test_a_gpu_goes_on_with_what_it_has_room_for(tmp_path: Path) -> None:
    import torch

    many, limit = 1 << 14, BatchLimit()
    tiny = TinyTask("feature-extraction", save_bert, texts(256) * (many // 256))
    model, rows = tiny.saved(tmp_path)
    expected = model.predictor(Placement())(rows)
    there = Placement("cuda", dtype="float32", batch_size=many, limit=limit)
    stage = StageAdapter("infer", (model.predictor(there),), *at_a_time(None), limit)
    room = 128 << 20  # of the 256 MiB that the widest layer makes of all rows
    has = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(room / has)
    try:
        made = [out.rows for out in stage(RowBatch(rows=rows, sources={0: "/in/a"}))]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert limit.halvings
    assert_alike(pa.concat_tables(made).select(["embedding"]), expected.select(["embedding"]), 1e-3)
