"""The vllm kind hands rows to vLLM's engine and tells a bad prompt from a broken engine.

Here the engine is a stand-in, since vLLM wants an older FastAPI than Prefect. `make test-vllm` runs
this file, and `test_vllm_engine.py`, with vLLM itself.
"""

import base64
import importlib
import importlib.util
import inspect
import io
import json
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pydantic import ValidationError

from tasks.errors import InvalidSpec, StageFailed
from tasks.kinds.models import VllmModel
from tasks.kinds.models.hf.sampling import seed_of
from tasks.kinds.models.llm.engine import CUT_OFF, Engine, load_engine
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import PLANNED_ON, PUBLISHED_ROW, ROW
from tasks.ray_job.blame import Outcome, call_with_blame
from tests.kinds.tiny_writers import save_chatting_gpt2
from tests.kinds.vllm_stand_in import BROKEN, LLM, vllm_stand_in

Fields = dict[str, Any]
NO_GPU = "needs vLLM, which may well be without a GPU"


@pytest.fixture
def engine() -> Iterator[type[LLM]]:
    with vllm_stand_in() as stand_in:
        yield stand_in


def model_of(**fields: Any) -> VllmModel:
    return VllmModel.model_validate({"name_or_path": "some/model", **fields})


def rows_of(values: list[Any], column: str = "prompt") -> pa.Table:
    return pa.table({ROW: pa.array(range(10, 10 + len(values)), pa.int64()), column: values})


def outcome_of(values: list[Any], **fields: Any) -> Outcome:
    model = model_of(**fields)
    predict = model.predictor(Placement("cuda", dtype="bfloat16"))
    return call_with_blame(predict, rows_of(values, model.input_column))


def png_of(width: int, height: int) -> bytes:
    """The beginning of a file, which tells the size of a picture."""
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", size), (b"IDAT", b"")]
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def texts_of(outcome: Outcome) -> list[str]:
    assert outcome.rows is not None
    found: list[str] = outcome.rows["generated_text"].to_pylist()
    return found


def test_prompts_are_handed_in_one_by_one_and_run_together(engine: type[LLM]) -> None:
    made = outcome_of(["abc", "de"], task="generate", engine_kwargs={"max_model_len": 20})
    assert texts_of(made) == ["cba", "ed"]
    assert made.rows is not None
    assert tuple(made.rows.column_names[2:]) == model_of().output_columns
    assert made.rows["prompt_tokens"].to_pylist() == [3, 2]
    assert made.rows["completion_tokens"].to_pylist() == [3, 2]
    assert made.rows["finish_reason"].to_pylist() == ["length", "length"]
    (llm,) = engine.made
    assert llm.ran == [["abc", "de"]]
    assert llm.arguments == {
        "model": "some/model",
        "runner": "generate",
        "dtype": "bfloat16",
        "revision": "main",
        "tokenizer_revision": "main",
    }


def test_a_bad_prompt_is_set_aside_and_nothing_runs_twice(engine: type[LLM]) -> None:
    made = outcome_of(["abc", "x" * 40, None, "de", "fg"], task="generate")
    assert texts_of(made) == ["cba", "ed", "gf"]
    assert sorted(made.failed) == [11, 12]
    assert "longer than the maximum model length of 30" in str(made.failed[11])
    assert "'prompt' is empty in this row" in str(made.failed[12])
    assert engine.made[0].ran == [["abc", "de", "fg"]]


def test_chats_go_through_the_models_template(engine: type[LLM]) -> None:
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    options = {"max_tokens": 4, "chat_template_kwargs": {"enable_thinking": False}}
    made = outcome_of(
        [[*talk, {"role": "user", "content": "c"}], talk], system_prompt="S", options=options
    )
    assert texts_of(made) == ["c|b|"]
    assert "the last message must be the user's" in str(made.failed[11])
    assert engine.made[0].ran == [["S|a|b|c"]]
    assert engine.made[0].templates == [(None, {"enable_thinking": False})] * 2
    assert texts_of(outcome_of(["c"], system_prompt="S")) == ["c|S"]


def test_templates_write_the_day_on_which_the_run_was_planned(
    engine: type[LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    days = ["2026-11-05", "2026-11-06"]
    rows = rows_of(["a", "b"]).append_column(PLANNED_ON, pa.array(days))
    model = model_of(options={"chat_template_kwargs": {"enable_thinking": False}})
    assert model.writes_dates
    assert not model_of(task="generate").writes_dates
    dated = "{{ strftime_now('%d %b %Y') }}"
    hf = SimpleNamespace(chat_template=dated, get_chat_template=lambda tools: dated)
    for tokenizer in (hf, SimpleNamespace()):
        monkeypatch.setattr("tests.kinds.vllm_stand_in.TOKENIZER", tokenizer)
        model.predictor(Placement("cuda", dtype="bfloat16"))(rows)
    given = {"enable_thinking": False}
    first, own = (each.templates for each in engine.made)
    assert first == [("{{ '05 Nov 2026' }}", given), ("{{ '06 Nov 2026' }}", given)]
    assert own == [(None, given)] * 2


def test_what_is_drawn_depends_on_seed_and_row(engine: type[LLM]) -> None:
    structure = {"structured_outputs": {"json": {"type": "object"}}, "min_p": 0.1}
    options = {"temperature": 0.7, "seed": 5, "stop": ["."], "sampling_params": structure}
    outcome_of(["a", "b"], options=options)
    given = [each.given for each in engine.made[0].parameters]
    assert [each["seed"] for each in given] == [seed_of(5, (10, 0)), seed_of(5, (11, 0))]
    assert given[0]["structured_outputs"].json == {"type": "object"}
    assert (given[0]["temperature"], given[0]["stop"], given[0]["min_p"]) == (0.7, ["."], 0.1)
    outcome_of(["a"])
    assert engine.made[1].parameters[0].given == {"max_tokens": 128, "temperature": 0.0}


def test_settings_that_vllm_does_not_take_are_no_rows_fault(engine: type[LLM]) -> None:
    model = model_of(options={"sampling_params": {"min_pp": 0.1}})
    with pytest.raises(InvalidSpec, match=r"^model.options: .* vLLM takes: .* 'min_pp'"):
        model.predictor(Placement("cuda", dtype="bfloat16"))
    assert not engine.made, "it takes minutes to load"
    model_of(task="embed").predictor(Placement("cuda", dtype="bfloat16"))


def test_children_of_one_row_draw_each_for_itself(engine: type[LLM]) -> None:
    model = model_of(task="generate", options={"temperature": 0.7})
    predict = model.predictor(Placement("cuda", dtype="bfloat16"))
    predict(pa.table({ROW: pa.array([7] * 4 + [8], pa.int64()), "prompt": ["a"] * 5}))
    given = [each.given["seed"] for each in engine.made[0].parameters]
    assert given == [seed_of(0, key) for key in ((7, 0), (7, 1), (7, 2), (7, 3), (8, 0))]
    assert len(set(given)) == 5


def test_rows_that_are_published_draw_by_their_ids_there(engine: type[LLM]) -> None:
    """Of two runs they may have the same, and have answers of their own all the same."""
    model = model_of(task="generate", options={"temperature": 0.7})
    predict = model.predictor(Placement("cuda", dtype="bfloat16"))
    rows = pa.table({ROW: [7, 8, 8, 9], PUBLISHED_ROW: [3, 3, 3, 5], "prompt": [*"abcd"]})
    found = predict(rows)
    given = [each.given["seed"] for each in engine.made[0].parameters]
    assert given == [seed_of(0, key) for key in ((3, 0), (3, 0), (3, 1), (5, 0))]
    assert found["generated_text"].to_pylist() == [*"abcd"]
    assert PUBLISHED_ROW not in found.column_names


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_what_the_engine_gives_up_is_no_answer(
    engine: type[LLM], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.kinds.vllm_stand_in.REASON", reason)
    with pytest.raises(StageFailed, match=f"ended a request with finish reason '{reason}'"):
        outcome_of(["abc", "de"], task="generate")


def test_settings_of_the_tokenizer_are_each_calls_own(
    engine: type[LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    whole = LLM.embed

    def embed(llm: LLM, prompts: list[str], **settings: Any) -> list[Any]:
        given.append(settings["tokenization_kwargs"])
        return whole(llm, prompts, **settings)

    monkeypatch.setattr(LLM, "embed", embed)
    outcome_of(["abc"], task="embed")
    given[0].clear()
    assert CUT_OFF, "what vLLM may change is not the next call's"


@pytest.mark.parametrize("task", ["generate", "embed"])
def test_a_broken_engine_is_no_rows_fault(engine: type[LLM], task: str) -> None:
    with pytest.raises(StageFailed, match="vLLM's engine failed: EngineDeadError: EngineCore"):
        outcome_of(["abc", BROKEN], task=task)


def test_an_image_too_large_to_be_decoded_is_the_rows_fault(
    engine: type[LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow raises what is no ValueError, and vLLM lets it pass."""
    bomb = png_of(20_000, 20_000)

    def decode(llm: LLM, talks: Sequence[Any], *others: Any, **settings: Any) -> list[str]:
        url = talks[0][-1]["content"][0]["image_url"]["url"]
        Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
        return llm.enqueue(["abc"], *others, use_tqdm=False)

    monkeypatch.setattr(LLM, "enqueue_chat", decode)
    rows = pa.table({ROW: pa.array([7, 8], pa.int64()), "photo": [bomb, png_of(2, 2)]})
    model = model_of(image_column="photo", prompt="?")
    outcome = call_with_blame(model.predictor(Placement("cuda", dtype="bfloat16")), rows)
    assert list(outcome.failed) == [7]
    assert texts_of(outcome) == ["cba"]


def test_embeddings(engine: type[LLM]) -> None:
    made = outcome_of(["abc", "", "d" * 50], task="embed")
    assert made.rows is not None
    assert made.rows["embedding"].type == pa.list_(pa.float32(), 2)
    assert made.rows["embedding"].to_pylist() == [[3, 0.5], [50, 0.5]]
    assert list(made.failed) == [11]
    arguments = engine.made[0].arguments
    assert (arguments["runner"], arguments["convert"]) == ("pooling", "embed")


def test_embeddings_are_of_numbers(engine: type[LLM], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Engine.embeddings

    def overflowing(self: Engine, texts: Sequence[str]) -> list[list[float]]:
        made = whole(self, texts)
        return [
            [np.nan, 0] if text == "x" else each for text, each in zip(texts, made, strict=True)
        ]

    monkeypatch.setattr(Engine, "embeddings", overflowing)
    made = outcome_of(["abc", "x"], task="embed")
    assert "gave no numbers for this row" in str(made.failed[11])
    assert made.rows is not None
    assert made.rows["embedding"].to_pylist() == [[3, 0.5]]


def test_classes(engine: type[LLM]) -> None:
    made = outcome_of(["abc", "d" * 18], task="classify")
    assert made.rows is not None
    assert made.rows["predicted_label"].to_pylist() == ["short", "long"]
    np.testing.assert_allclose(made.rows["predicted_score"], [0.85, 0.9], rtol=1e-6)


def test_classes_without_names_are_the_checkpoints_fault(
    engine: type[LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.kinds.vllm_stand_in.LABELS", {0: "short", 2: "long"})
    with pytest.raises(InvalidSpec, match=r"name_or_path: 'some/model' has no name for class 1"):
        outcome_of(["abc"], task="classify")


def test_arguments_that_vllm_refuses_are_the_specs_fault(engine: type[LLM]) -> None:
    with pytest.raises(
        InvalidSpec, match=r"engine_kwargs: .* cannot start vLLM with some/model: W"
    ):
        outcome_of(["a"], engine_kwargs={"tensor_parallel_size": 2})


def test_why_an_engine_does_not_start_is_told(
    engine: type[LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: LLM, model: str, **arguments: Any) -> None:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise RuntimeError("Engine core initialization failed.") from error

    monkeypatch.setattr(LLM, "__init__", start)
    with pytest.raises(StageFailed, match=r"some/model: OSError: \[Errno 28\] .* the job's log"):
        outcome_of(["a"])


def test_an_engine_that_is_not_ready_in_vllms_time_is_told(
    engine: type[LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: LLM, model: str, **arguments: Any) -> None:
        raise TimeoutError("Waited 600s (configured by VLLM_ENGINE_READY_TIMEOUT_S)")

    monkeypatch.setattr(LLM, "__init__", start)
    with pytest.raises(StageFailed, match="did not start with some/model: TimeoutError: Waited"):
        outcome_of(["a"])


def test_an_engine_that_lacks_memory_to_start_is_known_to(
    engine: type[LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: LLM, model: str, **arguments: Any) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(LLM, "__init__", start)
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        outcome_of(["a"])


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_check_says_how_to_install_it() -> None:
    with pytest.raises(InvalidSpec, match=r"pip install 'prefect-ray-data\[vllm\]'"):
        model_of().check()


def test_a_folder_is_looked_at_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.kinds.models.vllm.require", lambda *given: None)
    with pytest.raises(InvalidSpec, match=r"has no config\.json"):
        model_of(name_or_path=str(tmp_path)).check()
    save_chatting_gpt2(tmp_path)
    model = model_of(name_or_path=str(tmp_path))
    model.check()
    assert model.pinned(before := model.fingerprint()) == model
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert model.fingerprint() != before
    assert model_of().pinned("c0ffee").revision == "c0ffee"


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, to be copied and spoiled."""
    folder = tmp_path_factory.mktemp("gpt2")
    save_chatting_gpt2(folder)
    return folder


WEIGHTS, WORDS = "model.safetensors", "tokenizer.json"
INDEX = {"weight_map": {"a": WEIGHTS, "b": "model-2.safetensors"}}


@pytest.mark.parametrize(
    ("spoil", "elsewhere", "problem"),
    [
        (lambda f: (f / WEIGHTS).unlink(), {"load_format": "dummy"}, "no model.safetensors and no"),
        (
            lambda f: (f / WORDS).unlink(),
            {"tokenizer": "some/words"},
            r"tokenizer \(tokenizer.json",
        ),
        (lambda f: (f / WORDS).unlink(), {"tokenizer_mode": "mistral"}, "kwargs.tokenizer"),
        (lambda f: (f / WEIGHTS).write_bytes(b""), None, "broken model.safetensors: .* 0 bytes"),
        (
            lambda f: [
                (f / WEIGHTS).rename(f / "model-1.safetensors"),
                (f / f"{WEIGHTS}.index.json").write_text(json.dumps(INDEX)),
            ],
            {"load_format": "sharded_state"},
            "no model-2.safetensors and no model.safetensors",
        ),
    ],
)
def test_a_folder_without_weights_or_words_is_refused_before_the_job(
    gpt2: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path], Any],
    elsewhere: Fields | None,
    problem: str,
) -> None:
    monkeypatch.setattr("tasks.kinds.models.vllm.require", lambda *given: None)
    folder = Path(shutil.copytree(gpt2, tmp_path / "model"))
    spoil(folder)
    with pytest.raises(InvalidSpec, match=problem):
        model_of(name_or_path=str(folder)).check()
    if elsewhere is not None:
        model_of(name_or_path=str(folder), engine_kwargs=elsewhere).check()


@pytest.mark.parametrize(
    "rename",
    [{WEIGHTS: "weights-of-all.safetensors"}, {WEIGHTS: "consolidated.safetensors"}]
    + [{WORDS: each} for each in ("tekken.json", "tokenizer.model.v3", "vocab.json")],
)
def test_files_may_have_other_names_for_vllm(
    gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rename: dict[str, str]
) -> None:
    monkeypatch.setattr("tasks.kinds.models.vllm.require", lambda *given: None)
    folder = Path(shutil.copytree(gpt2, tmp_path / "model"))
    for before, after in rename.items():
        (folder / before).rename(folder / after)
    model_of(name_or_path=str(folder)).check()


def test_an_engine_that_knows_no_words_reads_no_texts(
    engine: type[LLM], gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    whole = transformers.AutoTokenizer.from_pretrained(gpt2)
    monkeypatch.setattr("tests.kinds.vllm_stand_in.TOKENIZER", whole)
    assert texts_of(outcome_of(["ab"])) == ["ba"]
    monkeypatch.setattr("tests.kinds.vllm_stand_in.TOKENIZER", transformers.BertTokenizer())
    with pytest.raises(
        InvalidSpec, match="'some/model' has no vocabulary file for its BertTokenize"
    ):
        outcome_of(["ab"])
    assert texts_of(outcome_of(["ab"], engine_kwargs={"tokenizer": "some/words"})) == ["ba"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"engine_kwargs": {"trust_remote_code": True}}, "such code is never run"),
        ({"engine_kwargs": {"dtype": "half"}}, "engine_kwargs.dtype: is set by resources.dtype"),
        ({"task": "embed", "options": {"max_tokens": 3}}, "options.max_tokens: 3 is for chat"),
        ({"task": "generate", "system_prompt": "x"}, "is for chat, not generate"),
        ({"options": {"top_k": 3}}, "top_k: 3 has no effect without a temperature above 0"),
        ({"options": {"sampling_params": {"seed": 3}}}, "seed: set model.options.seed instead"),
        ({"options": {"sampling_params": {"n": 3}}}, "asks for several answers: leave out n"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: Fields, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        model_of(**fields)


@pytest.fixture(params=["the stand-in", "vLLM"])
def package(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What `import vllm` gives."""
    if request.param == "vLLM":
        yield pytest.importorskip("vllm", reason=NO_GPU)
        return
    with vllm_stand_in():
        yield importlib.import_module("vllm")


def test_calls_are_those_that_vllm_takes(package: Any) -> None:
    """A call that does not fit the signature of the method is a TypeError of the mock's."""
    llm = create_autospec(package.LLM, instance=True)
    for call in (llm.wait_for_completion, llm.embed, llm.classify):
        call.return_value = []
    structure = {"structured_outputs": {"json": {"type": "object"}}, "min_p": 0.1}
    given = {"temperature": 0.7, "top_k": 3, "top_p": 0.9, "seed": 5, "stop": ["."]}
    template = {"enable_thinking": False}
    options = {**given, "sampling_params": structure, "chat_template_kwargs": template}
    asked = Engine(llm, model_of(options=options).options)
    asked.enqueue("a", (1, 0))
    tokenizer = llm.get_tokenizer.return_value
    tokenizer.get_chat_template.return_value = "{{ strftime_now('%d') }}"
    for day in (None, "2026-11-05"):
        asked.enqueue_chat([{"role": "user", "content": "a"}], (1, 0), day)
    assert asked.finished() == []
    assert asked.embeddings(["a"]) == asked.pooled(llm.classify, ["a"]) == []
    (text,), talks = llm.enqueue.call_args_list, llm.enqueue_chat.call_args_list
    assert talks[1].kwargs["chat_template"] == "{{ '05' }}"
    for method, call in (("enqueue", text), *(("enqueue_chat", talk) for talk in talks)):
        bound = inspect.signature(getattr(package.LLM, method)).bind(llm, *call.args, **call.kwargs)
        assert isinstance(bound.arguments["sampling_params"][0], package.SamplingParams)


@pytest.mark.parametrize("task", ["generate", "embed", "classify"])
def test_arguments_are_those_that_vllm_takes(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = pytest.importorskip("vllm", reason=NO_GPU)
    callables = vllm.LLM, vllm.EngineArgs  # LLM hands the others on to it
    monkeypatch.setattr(vllm, "LLM", create_autospec(vllm.LLM))
    monkeypatch.setattr("tasks.kinds.models.llm.engine.watch", lambda llm: None)
    load_engine("some/model", "main", task, {"dtype": "bfloat16", "max_model_len": 20})
    known = {name for each in callables for name in inspect.signature(each).parameters}
    assert vllm.LLM.call_args.kwargs.keys() <= known


def test_the_stand_in_has_vllms_calls() -> None:
    vllm = pytest.importorskip("vllm", reason=NO_GPU)
    calls = ("enqueue", "enqueue_chat", "wait_for_completion", "generate", "embed", "classify")
    for name in (*calls, "get_tokenizer"):
        ours, theirs = (inspect.signature(getattr(each, name)) for each in (LLM, vllm.LLM))
        assert ours.parameters.keys() <= theirs.parameters.keys(), name
    exceptions = importlib.import_module("vllm.exceptions")
    assert issubclass(exceptions.VLLMValidationError, exceptions.VLLMClientError)
