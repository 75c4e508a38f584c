"""Texts whose tokens are drawn at random come out as published, whichever rows are compared."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.batch_inference import batch_inference
from flows.verify import verify
from tasks.errors import PredictionsDiffer
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of
from tests.kinds.tiny_models import save_gpt2

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

ROWS_PER_FILE = 3


def add_prompts(folder: Path, first: int, count: int) -> None:
    """Files of the same prompts."""
    folder.mkdir(exist_ok=True)
    for number in range(first, first + count):
        ids = [number * ROWS_PER_FILE + row for row in range(ROWS_PER_FILE)]
        prompts = ["a b c"] * ROWS_PER_FILE
        pq.write_table(pa.table({"id": ids, "prompt": prompts}), folder / f"{number:03}.parquet")


def writing(folder: Path, checkpoint: Path, seed: int = 3) -> BatchInferenceSpec:
    options = {"do_sample": True, "max_new_tokens": 6, "seed": seed}
    model: dict[str, Any] = {"kind": "huggingface", "task": "text-generation"}
    return spec_of(folder, model={**model, "name_or_path": str(checkpoint), "options": options})


def test_texts_drawn_at_random_come_out_as_they_are_published(tmp_path: Path) -> None:
    """Of some of many files, and of nights each of which has numbered its own from 0 on."""
    prompts, checkpoint = tmp_path / "prompts", tmp_path / "gpt2"
    save_gpt2(checkpoint)
    spec = writing(prompts, checkpoint)
    for first, count in ((0, 20), (20, 3), (23, 1)):
        add_prompts(prompts, first, count)
        batch_inference(spec)
    assert len({row["generated_text"] for row in published(spec)}) > 36, "of 72"
    for rows in (16, 1_000):
        found = verify(spec, rows=rows)["rows"]
        assert (found["compared"], found["differ"]) == (min(rows, 72), 0)
    with pytest.raises(PredictionsDiffer, match="generated_text in"):
        verify(writing(prompts, checkpoint, seed=4), rows=16)
