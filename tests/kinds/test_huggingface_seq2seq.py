"""Encoder-decoders write what transformers makes them write, whatever batch a row is in."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.tiny_models import predicted, rows_of, save_gpt2, texts
from tests.kinds.tiny_padded_writers import save_llama4, save_phi3, save_xlstm
from tests.kinds.tiny_writers import (
    save_bart,
    save_gemma,
    save_minimax,
    save_nllb,
    save_recurrent_gemma,
    save_rwkv,
    save_t5,
    save_xlnet,
)

NEW_TOKENS = 8
SAVE: dict[str, Callable[[Path], Any]] = {
    "t5": save_t5,
    "bart": save_bart,
    "bart-beams": lambda folder: save_bart(
        folder, num_beams=3, no_repeat_ngram_size=2, min_length=3, max_length=7
    ),
    "nllb": save_nllb,
    "gemma": save_gemma,
    "recurrent-gemma": save_recurrent_gemma,
    "rwkv": save_rwkv,
    "xlnet": save_xlnet,
    "minimax": save_minimax,
    "phi3": save_phi3,
    "xlstm": save_xlstm,
    "llama4": save_llama4,
    "penalty": lambda folder: save_penalising(folder),
}
GREEDY: list[tuple[str, str, dict[str, Any]]] = [
    ("t5", "summarization", {"max_new_tokens": NEW_TOKENS}),
    ("bart", "text2text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("bart-beams", "summarization", {}),
    ("t5", "text2text-generation", {"max_new_tokens": NEW_TOKENS, "num_beams": 2}),
    ("nllb", "translation", {"max_new_tokens": NEW_TOKENS, "target_language": "deu_Latn"}),
    ("gemma", "text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("recurrent-gemma", "text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("rwkv", "text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("xlnet", "text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("minimax", "text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("phi3", "text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("xlstm", "text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("llama4", "text-generation", {"max_new_tokens": NEW_TOKENS}),
    ("penalty", "text-generation", {"max_new_tokens": NEW_TOKENS}),
]
SAMPLED = ("bart", "text2text-generation", {"max_new_tokens": 6, "do_sample": True, "top_k": 5})


def save_penalising(folder: Path) -> None:
    """A causal model whose own settings look at what stands in the prompt, padding included."""
    model = save_gpt2(folder)
    ends = list(range(3, 14))
    model.generation_config.update(repetition_penalty=1.7, min_length=9, eos_token_id=ends)
    model.generation_config.save_pretrained(folder)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder for each tiny model."""
    base = tmp_path_factory.mktemp("writers")
    for name, save in SAVE.items():
        save(base / name)
    return {name: base / name for name in SAVE}


def rows_for(task: str, count: int) -> pa.Table:
    column = "prompt" if task == "text-generation" else "text"
    return rows_of(column, texts(count, longest=40))


def one_by_one(folder: Path, task: str, lines: list[str], **arguments: Any) -> list[str]:
    """What transformers writes, a row at a time and without our code."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    causal = task == "text-generation"
    auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForSeq2SeqLM
    model = auto.from_pretrained(folder)
    written = []
    for line in lines:
        inputs = tokenizer(line, return_tensors="pt", truncation=True)
        inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        out = model.generate(**inputs, do_sample=False, pad_token_id=3, **arguments)
        new = out[0, inputs["input_ids"].shape[1] :] if causal else out[0]
        written.append(tokenizer.decode(new, skip_special_tokens=True))
    return written


@pytest.mark.parametrize(("name", "task", "options"), GREEDY)
def test_greedy_texts_are_the_models(
    folders: dict[str, Path], name: str, task: str, options: dict[str, Any]
) -> None:
    import transformers

    rows = rows_for(task, 20)
    found = predicted(folders[name], task, rows, **options)["generated_text"].to_pylist()
    arguments = dict(options)
    if language := arguments.pop("target_language", None):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folders[name])
        arguments["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(language)
    assert found == one_by_one(folders[name], task, rows.column(1).to_pylist(), **arguments)
    assert len(set(found)) > 8  # else the comparison would say little


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    which=st.sampled_from([*GREEDY, SAMPLED]),
    order=st.permutations(range(12)),
    count=st.integers(1, 12),
    batch_size=st.one_of(st.none(), st.integers(1, 14)),
)
def test_a_text_does_not_depend_on_the_rows_beside_it(
    folders: dict[str, Path],
    which: tuple[str, str, dict[str, Any]],
    order: list[int],
    count: int,
    batch_size: int | None,
) -> None:
    name, task, options = which
    rows = rows_for(task, 12)
    all_rows = predicted(folders[name], task, rows, **options)
    some = predicted(folders[name], task, rows.take(order[:count]), batch_size, **options)
    assert some.equals(all_rows.take(order[:count]))


def test_languages_and_prefixes_change_what_is_read_and_written(folders: dict[str, Path]) -> None:
    rows = rows_for("translation", 12)

    def written(name: str, task: str = "translation", **options: Any) -> list[str]:
        found = predicted(folders[name], task, rows, max_new_tokens=NEW_TOKENS, **options)
        return found["generated_text"].to_pylist()

    german = written("nllb", source_language="eng_Latn", target_language="deu_Latn")
    assert german == written("nllb", target_language="deu_Latn")  # the tokenizer's own source
    assert german != written("nllb", target_language="fra_Latn")
    assert german != written("nllb", source_language="fra_Latn", target_language="deu_Latn")
    lines = [f"a b {line}" for line in rows["text"].to_pylist()]
    wanted = one_by_one(folders["t5"], "translation", lines, max_new_tokens=NEW_TOKENS)
    assert written("t5", prefix="a b ") == wanted


def test_the_models_files_say_the_prefix_of_summaries(tmp_path: Path) -> None:
    save_t5(tmp_path, task_specific_params={"summarization": {"prefix": "c d "}})
    rows = rows_for("summarization", 6)
    own = predicted(tmp_path, "summarization", rows, max_new_tokens=4)
    assert own == predicted(tmp_path, "summarization", rows, max_new_tokens=4, prefix="c d ")
    assert own != predicted(tmp_path, "summarization", rows, max_new_tokens=4, prefix="")


@pytest.mark.parametrize(
    ("name", "task", "options", "message"),
    [
        ("nllb", "translation", {"target_language": "deu"}, r"'deu' .* it knows deu_Latn"),
        ("nllb", "translation", {"source_language": "xx", "target_language": "deu_Latn"}, "'xx'"),
        ("nllb", "translation", {}, "target_language: None must be one of .* deu_Latn"),
        ("t5", "translation", {"target_language": "de"}, "knows no languages"),
        ("penalty", "summarization", {}, "is not an encoder-decoder"),
        ("bart", "text-generation", {}, "is an encoder-decoder"),
        ("bart", "summarization", {"max_new_tokens": 64}, "max_new_tokens: 64 .* can write: 63"),
        ("penalty", "text-generation", {"max_new_tokens": 64}, "64 leaves no room for the prompt"),
    ],
)
def test_what_does_not_fit_is_found_before_anything_starts(
    folders: dict[str, Path], name: str, task: str, options: dict[str, Any], message: str
) -> None:
    given = {"task": task, "name_or_path": str(folders[name]), "options": options}
    with pytest.raises(InvalidSpec, match=message):
        HuggingFaceModel.model_validate(given).check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 3}, "top_k: 3 has no effect without do_sample"),
        ({"top_p": 0.5}, "top_p: 0.5 has no effect without do_sample"),
        ({"do_sample": True, "num_beams": 2}, "cannot be combined with do_sample"),
        ({"target_language": "de"}, "is for translation"),
        ({"chat": True}, "is for text-generation"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], message: str) -> None:
    given = {"task": "summarization", "name_or_path": "some/name", "options": options}
    with pytest.raises(ValidationError, match=message):
        HuggingFaceModel.model_validate(given)
