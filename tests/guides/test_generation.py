"""Prompts, chats and articles through their specs: what the model's `generate` writes."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.testing import RunSpec
from tasks.errors import StageFailed
from tests.kinds.tiny_models import save_gpt2, texts
from tests.kinds.tiny_writers import save_bart, save_chatting_gpt2

PROMPTS = texts(12, longest=20)
LONG = "a " * 100


def write(model: Any, tokenizer: Any, inputs: Any, **arguments: Any) -> str:
    """What transformers writes, a row at a time."""
    ids = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    out = model.generate(**ids, do_sample=False, pad_token_id=3, **arguments)
    start = 0 if model.config.is_encoder_decoder else ids["input_ids"].shape[1]
    return tokenizer.decode(out[0, start:], skip_special_tokens=True)


def dying(method: Callable[..., Any], calls: int) -> Callable[..., Any]:
    """A method that works a few times; then the environment breaks."""
    called = itertools.count(1)

    def call(*given: Any, **named: Any) -> Any:
        if next(called) > calls:
            raise OSError(5, "the device is gone")
        return method(*given, **named)

    return call


@pytest.mark.prefect
def test_prompts(run_spec: RunSpec, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    save_gpt2(tmp_path / "gpt2")
    given = f"model.name_or_path={tmp_path / 'gpt2'}", "model.options.max_new_tokens=8"
    rows = [{"prompt": prompt} for prompt in PROMPTS]
    done = run_spec("deployments/specs/text-generation.yaml", *given, rows=rows)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "gpt2")
    for row, prompt in zip(done.rows, PROMPTS, strict=True):
        inputs = tokenizer(prompt, return_tensors="pt")
        written = write(model, tokenizer, inputs, max_new_tokens=8)
        assert row == {"prompt": prompt, "generated_text": written}


@pytest.mark.prefect
def test_drawn_texts_follow_from_seed_and_row(
    run_spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever rows a prompt is with, and wherever a run was ended and resumed."""
    from transformers import GPT2LMHeadModel

    save_gpt2(tmp_path / "gpt2")
    options = "{max_new_tokens: 8, do_sample: true, seed: 1}"
    given = f"model.name_or_path={tmp_path / 'gpt2'}", f"model.options={options}"
    spec = "deployments/specs/text-generation.yaml"
    drawn = run_spec(spec, *given, rows=[{"prompt": prompt} for prompt in PROMPTS])
    assert [row["prompt"] for row in drawn.rows] == PROMPTS
    again = *given, f"source.path={drawn.spec.source.paths[0]}"
    others = run_spec(spec, *again, "name=other-batches", "stages.read.rows_per_batch=5")
    assert others.rows == drawn.rows

    resumed = *again, "name=resumed", "stages.read.rows_per_batch=3"
    with monkeypatch.context() as patched:
        patched.setattr(GPT2LMHeadModel, "generate", dying(GPT2LMHeadModel.generate, calls=2))
        with pytest.raises(StageFailed, match="the device is gone"):
            run_spec(spec, *resumed)
    done = run_spec(spec, *resumed)
    assert done.report["resumed_rows"] == 6
    assert done.rows == drawn.rows

    other_seed = run_spec(spec, *again, "name=other-seed", "model.options.seed=2")
    assert [row["prompt"] for row in other_seed.rows] == PROMPTS
    differ = [one != other for one, other in zip(other_seed.rows, drawn.rows, strict=True)]
    assert sum(differ) > 6


@pytest.mark.prefect
def test_chats(run_spec: RunSpec, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    save_chatting_gpt2(tmp_path / "chat")
    given = (
        f"model.name_or_path={tmp_path / 'chat'}",
        "model.options.max_new_tokens=6",
        "model.options.system_prompt=h i",
        "errors.max_rejected_fraction=0.1",
    )
    rows = [{"question": question} for question in [*PROMPTS[:11], LONG]]
    done = run_spec("deployments/specs/chat.yaml", *given, rows=rows)
    assert ["it is not cut off" in row["error_message"] for row in done.set_aside] == [True]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "chat")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "chat")
    for row, question in zip(done.rows, PROMPTS[:11], strict=True):
        said = [{"role": "system", "content": "h i"}, {"role": "user", "content": question}]
        inputs = tokenizer.apply_chat_template(
            said, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        assert row["generated_text"] == write(model, tokenizer, inputs, max_new_tokens=6)


@pytest.mark.prefect
def test_articles(run_spec: RunSpec, tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    save_bart(tmp_path / "bart")
    given = f"model.name_or_path={tmp_path / 'bart'}", "model.options.max_new_tokens=8"
    articles = [*PROMPTS, LONG]
    rows = [{"id": at, "article": article} for at, article in enumerate(articles)]
    done = run_spec("deployments/specs/summarization.yaml", *given, rows=rows)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bart")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "bart")
    for row, (at, article) in zip(done.rows, enumerate(articles), strict=True):
        inputs = tokenizer(article, return_tensors="pt", truncation=True)
        summary = write(model, tokenizer, inputs, max_new_tokens=8, num_beams=4)
        assert row == {"id": at, "generated_text": summary}
