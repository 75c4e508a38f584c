"""vLLM's own engine in the tests' process, and what it makes of rows."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tasks.kinds.models import VllmModel
from tasks.kinds.models.llm.engine import Engine
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import Outcome, call_with_blame

OPTIONS = {"max_tokens": 8}
QUICK = {
    "enforce_eager": True,
    "distributed_executor_backend": "uni",
    # A model of random weights would write blanks until it is cut off.
    "structured_outputs_config": {"disable_any_whitespace": True, "backend": "xgrammar"},
}

LITTLE_ROOM = {"VLLM_CPU_KVCACHE_SPACE": "1"}
"""GiB of memory for what an engine keeps of its texts."""


def model_of(folder: Path, places: int, **fields: Any) -> VllmModel:
    """A model that takes texts of so many tokens."""
    arguments = {**QUICK, "max_model_len": places}
    given = {"name_or_path": str(folder), "engine_kwargs": arguments, **fields}
    model = VllmModel.model_validate(given)
    model.check()
    return model


def device() -> str:
    """Where engines run."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def loaded(model: VllmModel) -> Engine:
    """Its engine, in this process, where it is there sooner, with little room."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", **LITTLE_ROOM}.items():
            patch.setenv(name, value)
        return model.engine(Placement(device(), dtype="float32"))


def outcome(engine: Engine, model: VllmModel, rows: pa.Table) -> Outcome:
    """What becomes of rows; the model's options are those that count."""
    asked = Engine(engine.llm, model.options, model.answer_schema)
    return call_with_blame(model.predict_with(asked), rows)


def rows_of(prompts: list[Any], first: int = 0) -> pa.Table:
    """Rows with these prompts, numbered."""
    ids = pa.array(range(first, first + len(prompts)), pa.int64())
    return pa.table({ROW: ids, "prompt": prompts})


def texts_of(found: Outcome) -> list[str]:
    """What was written in the rows that are not set aside."""
    assert found.rows is not None
    return [whole(text) for text in found.rows["generated_text"].to_pylist()]


def whole(text: str) -> str:
    """A text without the beginning of a character that was cut off, which vLLM keeps to itself."""
    return text.rstrip("\ufffd")


def hold_back(batch: dict[str, Any], first: int, until: str, seconds: float = 600) -> dict:
    """A step that hands on the first rows, and those after them once a file is there.

    It may come to them before there is an engine, which takes minutes on a busy machine.
    """
    end = time.monotonic() + seconds
    while batch["id"].max() >= first and not Path(until).exists():
        if time.monotonic() > end:
            raise TimeoutError(f"nobody made {until} in {seconds} s")
        time.sleep(0.05)
    return batch
