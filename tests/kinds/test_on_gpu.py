"""Hugging Face models on a GPU say what they say on a CPU; needs neither Ray nor Prefect."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tasks.kinds.models.batch_limit import BatchLimit
from tasks.kinds.models.model import DType, Placement
from tasks.kinds.models.runtimes.comparing import TOLERANCES, largest_difference
from tasks.protocol.batch import RowBatch
from tasks.ray_job.stage_adapter import StageAdapter
from tests.kinds.tiny_models import images, png, save_bert, save_vit, texts
from tests.kinds.tiny_tasks import TINY_TASKS, TinyTask, assert_alike
from tests.ray_job.test_stage_adapter import at_a_time

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU and a torch built for it")


def greedy(tiny: TinyTask) -> TinyTask:
    """The same, without draws: each device draws by numbers of its own."""
    draws = ("do_sample", "seed")
    options = {name: value for name, value in tiny.options.items() if name not in draws}
    return replace(tiny, options=options)


def furthest(one: pa.Table, other: pa.Table) -> float:
    """How far embeddings are from each other, as a share of the largest number."""
    import torch

    arrays = (torch.tensor(each["embedding"].to_pylist()) for each in (one, other))
    return largest_difference(*([each] for each in arrays))


@pytest.mark.parametrize("tiny", [*map(greedy, TINY_TASKS)], ids=str)
def test_a_gpu_predicts_what_a_cpu_does(tiny: TinyTask, tmp_path: Path) -> None:
    model, rows = tiny.saved(tmp_path)
    there = Placement("cuda", dtype="float32", batch_size=8)  # several batches, one ahead
    assert_alike(model.predictor(there)(rows), model.predictor(Placement())(rows), 1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_compiled_model_says_what_eager_says(dtype: DType, tmp_path: Path) -> None:
    tiny = TinyTask("image-feature-extraction", save_vit, [*map(png, images(20))])
    model, rows = tiny.saved(tmp_path)
    made = {}
    for runtime in ("eager", "compile"):
        there = Placement("cuda", dtype=dtype, batch_size=8)  # the last batch is filled up
        predict = model.model_copy(update={"runtime": runtime}).predictor(there)
        for _ in range(3):  # the graph is played again, over its own outputs
            made[runtime] = predict(rows)
        (used,) = there.runtimes.told
        assert (used.used, used.precision, used.problem) == (runtime, dtype, None)
    assert made["compile"].schema == made["eager"].schema
    assert furthest(made["eager"], made["compile"]) <= TOLERANCES[dtype]


def test_a_gpu_goes_on_with_what_it_has_room_for(tmp_path: Path) -> None:
    import torch

    many, limit = 1 << 14, BatchLimit()
    tiny = TinyTask("feature-extraction", save_bert, texts(256) * (many // 256))
    model, rows = tiny.saved(tmp_path)
    expected = model.predictor(Placement())(rows)
    there = Placement("cuda", dtype="float32", batch_size=many, limit=limit)
    stage = StageAdapter("infer", (model.predictor(there),), *at_a_time(None), limit)
    torch.cuda.empty_cache()  # what is left is of other tests' graphs
    # Of the 256 MiB that the widest layer makes of all rows.
    room = torch.cuda.memory_reserved() + (128 << 20)
    has = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(room / has)
    try:
        made = [out.rows for out in stage(RowBatch(rows=rows, sources={0: "/in/a"}))]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert limit.halvings
    assert furthest(expected, pa.concat_tables(made)) < 1e-3
