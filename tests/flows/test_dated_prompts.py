"""Prompts with a date have that of their run: in all attempts, and where they are compared."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.batch_inference import batch_inference
from flows.verify import verify
from tests.flows.conftest import published, spec_of
from tests.kinds.tiny_writers import save_chatting_gpt2

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

DATED = "{{ {'05': 'a b c', '06': 'd e f'}.get(strftime_now('%d'), 'g h') }}"
PROMPTS = 4


def add_prompts(folder: Path, night: int) -> None:
    """A file of prompts that are all the same to the template."""
    folder.mkdir(exist_ok=True)
    ids = [night * PROMPTS + row for row in range(PROMPTS)]
    pq.write_table(pa.table({"id": ids, "prompt": ["i"] * PROMPTS}), folder / f"{night}.parquet")


@pytest.mark.parametrize("is_cut", [False, True])
def test_each_run_writes_its_own_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    prompts, checkpoint = tmp_path / "prompts", tmp_path / "gpt2"
    save_chatting_gpt2(checkpoint)
    (checkpoint / "chat_template.jinja").write_text(DATED)
    options = {"chat": True, "max_new_tokens": 6}
    model: dict[str, Any] = {"kind": "huggingface", "task": "text-generation", "options": options}
    model["name_or_path"] = str(checkpoint)
    stages = {"preprocess": {"materialize": is_cut}}
    spec = spec_of(prompts, model=model, stages=stages)
    for night in (5, 6):
        began = datetime(2026, 11, night, 23, 59, tzinfo=UTC).timestamp()
        monkeypatch.setattr("tasks.run_folder.time", SimpleNamespace(time=lambda at=began: at))
        add_prompts(prompts, night)
        batch_inference(spec)
    texts = [row["generated_text"] for row in sorted(published(spec), key=lambda row: row["id"])]
    first, second = texts[0], texts[-1]
    assert texts == [first] * PROMPTS + [second] * PROMPTS
    assert first != second
    monkeypatch.undo()  # it is another day by now
    found = verify(spec, rows=100)["rows"]
    assert (found["compared"], found["differ"]) == (2 * PROMPTS, 0)
