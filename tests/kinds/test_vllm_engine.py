"""What vLLM's own engine makes of rows, beside transformers: `make test-vllm`, on CPUs or a GPU."""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import StageFailed
from tasks.kinds.models.llm.engine import Engine
from tasks.plan import make_plan
from tasks.protocol.batch import PLANNED_ON
from tasks.publish import publish_planned
from tasks.run_options import RunOptions
from tasks.spec_file import parse_spec
from tests.kinds.tiny_llamas import PLACES, save_classifying_llama, save_llama
from tests.kinds.vllm_engines import (
    LITTLE_ROOM,
    OPTIONS,
    device,
    loaded,
    model_of,
    outcome,
    rows_of,
    texts_of,
    whole,
)
from tests.ray_job.test_raylet import lives
from tests.reporting import run_attempt

vllm = pytest.importorskip("vllm", reason="vLLM is not here: make test-vllm")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

PROMPTS = ["hello", "a somewhat longer prompt", "x" * PLACES, "x", "what is it?"]
TOO_LONG = 2
ANSWER = {
    "type": "object",
    "properties": {"label": {"enum": ["yes", "no"]}, "sure": {"type": "boolean"}},
    "required": ["label", "sure"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("llama")
    save_llama(made)
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    """One for all that writes."""
    yield loaded(model_of(folder, PLACES, task="generate", options=OPTIONS))
    gc.collect()


def by_transformers(folder: Path, prompts: list[str]) -> list[str]:
    """What transformers writes, greedily, one prompt at a time."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    alone = transformers.AutoModelForCausalLM.from_pretrained(folder)
    said = []
    for prompt in prompts:
        inputs = tokenizer(prompt, return_tensors="pt")
        out = alone.generate(**inputs, max_new_tokens=8, do_sample=False, pad_token_id=0)
        new = out[0, inputs["input_ids"].shape[1] :]
        said.append(whole(tokenizer.decode(new, skip_special_tokens=True)))
    return said


def test_texts_are_transformers_own_and_one_too_long_is_set_aside(
    engine: Engine, folder: Path
) -> None:
    model = model_of(folder, PLACES, task="generate", options=OPTIONS)
    found = outcome(engine, model, rows_of(PROMPTS))
    assert list(found.failed) == [TOO_LONG]
    assert str(PLACES) in str(found.failed[TOO_LONG])
    left = [each for at, each in enumerate(PROMPTS) if at != TOO_LONG]
    assert texts_of(found) == by_transformers(folder, left)
    assert found.rows is not None
    assert found.rows["prompt_tokens"].to_pylist() == [len(each) for each in left]
    assert set(found.rows["finish_reason"].to_pylist()) <= {"length", "stop"}


def test_chats_are_what_the_template_makes_of_them(engine: Engine, folder: Path) -> None:
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    asked = ["hello", [*talk, {"role": "user", "content": "c"}], talk]
    days = pa.array(["2026-11-05", "2026-11-06", "2026-11-05"])
    options = {**OPTIONS, "chat_template_kwargs": {"loud": True}}
    model = model_of(folder, PLACES, system_prompt="be brief", options=options)
    whole = [
        [{"role": "user", "content": each}] if isinstance(each, str) else each for each in asked
    ]
    rows = rows_of(whole).append_column(PLANNED_ON, days)
    found = outcome(engine, model, rows)
    assert "it has answered" in str(found.failed[2])
    written = ["05 Nov!sbe briefuhello", "06 Nov!sbe briefuaabuc"]
    assert texts_of(found) == by_transformers(folder, written)


def test_answers_keep_to_their_schema(engine: Engine, folder: Path) -> None:
    model = model_of(
        folder, PLACES, task="generate", options={"max_tokens": 60}, answer_schema=ANSWER
    )
    found = outcome(engine, model, rows_of(["hello", "x", "what is it?", "no"]))
    assert not found.failed
    assert found.rows is not None
    assert set(found.rows["label"].to_pylist()) <= {"yes", "no"}
    assert found.rows["sure"].type == pa.bool_()


def test_what_a_row_draws_follows_from_seed_and_row(engine: Engine, folder: Path) -> None:
    drawn = {**OPTIONS, "temperature": 1.0}
    model = model_of(folder, PLACES, task="generate", options={**drawn, "seed": 3})
    together = texts_of(outcome(engine, model, rows_of(["hello"] * 6)))
    assert len(set(together)) > 3
    alone = [texts_of(outcome(engine, model, rows_of(["hello"], first))) for first in range(6)]
    assert [text for (text,) in alone] == together
    other = model_of(folder, PLACES, task="generate", options={**drawn, "seed": 4})
    assert texts_of(outcome(engine, other, rows_of(["hello"] * 6))) != together


def test_embeddings_are_of_the_last_token(folder: Path) -> None:
    import torch
    import transformers

    model = model_of(folder, PLACES, task="embed", column="prompt")
    texts = ["hello", "a somewhat longer text", "x" * (2 * PLACES)]
    made = model.predict_with(loaded(model))(rows_of(texts))["embedding"].to_pylist()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    alone = transformers.AutoModel.from_pretrained(folder)
    for text, vector in zip(texts[:2], made, strict=False):
        with torch.inference_mode():
            last = alone(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, -1]
        torch.testing.assert_close(torch.tensor(vector), last / last.norm(), atol=1e-4, rtol=0)
    assert len(made[2]) == len(made[0]), "what is too long is cut off"


def test_texts_are_classified_as_transformers_does(tmp_path: Path) -> None:
    import torch
    import transformers

    alone = save_classifying_llama(tmp_path)
    model = model_of(tmp_path, PLACES, task="classify", column="prompt")
    texts = ["hello", "a somewhat longer text", "x"]
    made = model.predict_with(loaded(model))(rows_of(texts))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    with torch.inference_mode():
        scores = [alone(**tokenizer(each, return_tensors="pt")).logits[0] for each in texts]
    best = [each.softmax(-1).max(-1) for each in scores]
    labels = [alone.config.id2label[int(each.indices)] for each in best]
    assert made["predicted_label"].to_pylist() == labels
    assert len(set(labels)) > 1
    assert made["predicted_score"].to_pylist() == pytest.approx(
        [float(each.values) for each in best], abs=1e-4
    )


ROWS = 400
FIRST = 200
"""So many are answered before the engine is killed; the others come afterwards."""


NAMED, UNNAMED = "EngineCore", "multiprocessing.spawn"
"""In the command line of an engine: what it calls itself fails to get there now and then."""


def started() -> dict[psutil.Process, str]:
    """Processes that this one has started, also by way of Ray, and their command lines."""
    found = dict[psutil.Process, str]()
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ends meanwhile
            found[each] = " ".join(each.cmdline())
    return found


def engines() -> list[psutil.Process]:
    """Those that are engines, each before what it has started itself."""
    return [each for each, words in started().items() if NAMED in words or UNNAMED in words]


@pytest.mark.ray
@pytest.mark.timeout(900)  # on a busy machine each of its two engines is there after minutes
def test_a_job_whose_engine_is_killed_loses_nothing_and_sets_no_row_aside(
    folder: Path, tmp_path: Path
) -> None:
    """The engine runs in processes of its own, as on GPUs, beside a replica of Ray's."""
    gpus = int(device() == "cuda")
    (tmp_path / "in").mkdir()
    prompts = [f"{number} is a number" for number in range(ROWS)]
    pq.write_table(
        pa.table({"id": list(range(ROWS)), "prompt": prompts}), tmp_path / "in/0.parquet"
    )
    model = {
        "kind": "vllm",
        "name_or_path": str(folder),
        "task": "generate",
        "options": {"max_tokens": 60},
        "engine_kwargs": {"enforce_eager": True, "max_model_len": PLACES},
    }
    dead = tmp_path / "dead"
    held_back = {
        "kind": "python",
        "function": "tests.kinds.vllm_engines:hold_back",
        "init": {"first": FIRST, "until": str(dead)},
    }
    spec = parse_spec(
        {
            "name": "numbers",
            "source": {"kind": "parquet", "path": str(tmp_path / "in")},
            "steps": [held_back],
            "model": model,
            "sink": {"kind": "parquet", "path": str(tmp_path / "out")},
            "resources": {"num_gpus": gpus, "batch_size": 8, "dtype": "float32", "max_replicas": 1},
            "stages": {"read": {"rows_per_batch": 8}},
            "environment": {"env_vars": {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", **LITTLE_ROOM}},
            "cluster": {"kind": "local"},
        }
    )
    planned = make_plan(spec, RunOptions())
    stop = threading.Event()

    def kill_once() -> str:
        """Kill the engine once rows are recorded; what was there instead where there was none."""
        seen = "no row was recorded"
        try:
            while not stop.wait(0.1):
                if not planned.accepted().done:
                    continue
                if found := engines():
                    os.kill(found[0].pid, signal.SIGKILL)
                    while lives(found[0]):
                        time.sleep(0.05)
                    return ""
                seen = f"no engine among {started()}"
            return seen
        finally:
            dead.touch()

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill_once)
        try:
            with pytest.raises(StageFailed) as failed:
                run_attempt(planned)
        finally:
            stop.set()
    assert not killed.result(), failed.value
    assert "vLLM's engine failed" in str(failed.value)
    before = planned.accepted().done
    assert 0 < before <= FIRST
    run_attempt(planned)
    assert not planned.accepted().rejected
    publish_planned(planned)
    found = pq.read_table(tmp_path / "out").sort_by("id")
    assert found["id"].to_pylist() == list(range(ROWS))
    assert not engines()
