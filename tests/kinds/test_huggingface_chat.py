"""Chats are what the tokenizer's template makes of them, and the model's answer to that."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.torch_threads import torch_threads
from tasks.protocol.batch import PLANNED_ON
from tests.kinds.tiny_models import predicted, rows_of, save_gpt2, texts
from tests.kinds.tiny_writers import save_chatting_gpt2

SYSTEM = {"role": "system", "content": "h i"}
TALK = [
    {"role": "user", "content": "a b"},
    {"role": "assistant", "content": "c d e"},
    {"role": "user", "content": "f"},
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that chats."""
    made = tmp_path_factory.mktemp("chat")
    save_chatting_gpt2(made)
    return made


def answers(folder: Path, prompts: list[Any], **options: Any) -> list[str]:
    options = {"chat": True, "max_new_tokens": 6, **options}
    found = predicted(folder, "text-generation", rows_of("prompt", prompts), **options)
    return found["generated_text"].to_pylist()


def by_hand(folder: Path, conversations: list[list[dict[str, str]]]) -> list[str]:
    """What transformers answers, one conversation at a time and without our code."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    said = []
    for messages in conversations:
        inputs = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        out = model.generate(**inputs, max_new_tokens=6, do_sample=False, pad_token_id=3)
        new = out[0, inputs["input_ids"].shape[1] :]
        said.append(tokenizer.decode(new, skip_special_tokens=True))
    return said


def test_a_text_is_what_the_user_says(folder: Path) -> None:
    prompts = texts(12, longest=20)
    asked = [[{"role": "user", "content": prompt}] for prompt in prompts]
    found = answers(folder, prompts)
    assert found == by_hand(folder, asked)
    assert len(set(found)) > 5
    told = answers(folder, prompts, system_prompt="h i")
    assert told == by_hand(folder, [[SYSTEM, *each] for each in asked])
    assert told != found


def test_a_conversation_is_taken_as_it_is(folder: Path) -> None:
    talks = [TALK, TALK[:1], [SYSTEM, *TALK]]
    assert answers(folder, talks) == by_hand(folder, talks)
    told = answers(folder, talks, system_prompt="j k l")
    first = {"role": "system", "content": "j k l"}
    assert told == by_hand(folder, [[first, *TALK], [first, TALK[0]], [SYSTEM, *TALK]])


def test_an_answer_that_is_begun_is_gone_on_with_as_pipelines_do(folder: Path) -> None:
    from transformers import pipeline

    begun = [TALK[:2], [SYSTEM, *TALK, {"role": "assistant", "content": "g h"}]]
    chat = pipeline("text-generation", str(folder), device="cpu")
    wanted = [
        chat(each, max_new_tokens=6, do_sample=False, return_full_text=False)[0]["generated_text"]
        for each in begun
    ]
    assert answers(folder, [begun[0], TALK, begun[1]]) == [
        wanted[0],
        *by_hand(folder, [TALK]),
        wanted[1],
    ]
    assert wanted != by_hand(folder, begun)


def test_a_tokenizer_that_knows_pairs_chats_as_well(folder: Path, tmp_path: Path) -> None:
    pairs = shutil.copytree(folder, tmp_path / "pairs")
    config = json.loads((pairs / "tokenizer_config.json").read_text())
    config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    (pairs / "tokenizer_config.json").write_text(json.dumps(config))
    assert answers(pairs, [TALK, TALK[:1]]) == answers(folder, [TALK, TALK[:1]])
    assert answers(pairs, ["a b"], chat=None) == answers(folder, ["a b"], chat=None)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([None], "'prompt' is empty in this row"),
        ([""], "'prompt' is empty in this row"),
        ([[]], "'prompt' is empty in this row"),
        ([3], "has something else"),
        ([[{"role": "user"}]], "has something else"),
        (["a " * 60], "has 63 tokens, but the model has room for 58; it is not cut off"),
        ([[{"role": "robot", "content": "a"}]], "no such role"),
    ],
)
def test_a_row_that_is_no_chat_is_an_error(folder: Path, prompts: list[Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        answers(folder, prompts)


def test_a_tokenizer_without_a_template_is_refused_before_anything_starts(tmp_path: Path) -> None:
    save_gpt2(tmp_path)
    given = {"task": "text-generation", "name_or_path": str(tmp_path), "options": {"chat": True}}
    with pytest.raises(InvalidSpec, match=r"options\.chat: True needs a chat template"):
        HuggingFaceModel.model_validate(given).check()


def with_template(folder: Path, made: Path, template: str) -> Path:
    """The same model with another template."""
    shutil.copytree(folder, made)
    (made / "chat_template.jinja").write_text(template)
    return made


def test_the_template_takes_arguments(folder: Path, tmp_path: Path) -> None:
    short = "{{ messages[0].content if brief else 'a b c d e f g h i j' }}"
    made = with_template(folder, tmp_path / "brief", short)
    asked = ["c d", "e f"]
    given = {"brief": True}
    assert answers(made, asked, chat_template_kwargs=given) == answers(made, asked, chat=None)
    long, _ = answers(made, asked)
    assert [long] == answers(made, ["a b c d e f g h i j"], chat=None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("brieff", "'brieff' is not in the template: give names that"),
        ("add_generation_prompt", "is set by this kind of model: give names that"),
    ],
)
def test_arguments_that_would_do_nothing_or_harm_are_refused(
    folder: Path, name: str, message: str
) -> None:
    with pytest.raises(InvalidSpec, match=f"model.options.chat_template_kwargs: .*{message}"):
        answers(folder, ["a b"], chat_template_kwargs={name: True})


def test_templates_write_the_day_on_which_a_rows_run_was_planned(
    folder: Path, tmp_path: Path
) -> None:
    dated = "{{ 'a b c' if strftime_now('%d %b %Y') == '05 Nov 2026' else 'd e f' }}"
    made = with_template(folder, tmp_path / "dated", dated)
    days = pa.array(["2026-11-05", "2026-11-06", "2026-11-05"])
    rows = rows_of("prompt", ["g", "h", "i"])
    options = {"chat": True, "max_new_tokens": 6}
    found = predicted(made, "text-generation", rows.append_column(PLANNED_ON, days), **options)
    first, second = answers(folder, ["a b c", "d e f"], chat=None)
    assert found["generated_text"].to_pylist() == [first, second, first]
    assert first != second
    assert answers(made, ["g"]) == [second], "today's, of rows that are no job's"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"system_prompt": "x"}, "has no effect without chat: true"),
        ({"chat_template_kwargs": {"x": 1}}, "has no effect without chat: true"),
        ({"chat": True, "prefix": "x"}, "prefix: 'x' has no effect with chat: true"),
    ],
)
def test_what_does_nothing_with_or_without_chat_is_refused(
    options: dict[str, Any], message: str
) -> None:
    given = {"task": "text-generation", "name_or_path": "some/name"}
    with pytest.raises(ValidationError, match=message):
        HuggingFaceModel.model_validate({**given, "options": options})
