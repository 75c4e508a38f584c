"""Texts of more tokens than the model reads: never cut off without a word."""

from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tests.kinds.test_huggingface_check import in_a_clean_process
from tests.kinds.tiny_models import VOCABULARY, rows_of, save_bert, save_gpt2, saved, tokenizer
from tests.kinds.tiny_writers import save_nllb, save_t5


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("writer")
    save_gpt2(made)
    return made


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("reader")
    save_bert(made)
    return made


def tokens(folder: Path, task: str, words: list[int], **options: Any) -> list[int]:
    """How many tokens become of texts of so many words."""
    model = HuggingFaceModel(task=task, name_or_path=str(folder), options=options)
    rows = rows_of(model.input_column, ["a " * count for count in words])
    return [len(each) for each in model.preprocessor()(rows)["__input_ids"].to_pylist()]


def test_a_prompt_is_not_cut_off_unless_the_spec_says_so(
    gpt2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    most = 56  # and 8 to write
    assert tokens(gpt2, "text-generation", [most, 3], max_new_tokens=8) == [most, 3]
    way_out = rf"options.max_length: {most} to cut off"
    problem = rf"has {most + 1} tokens, but .* room for {most}; .*{way_out}"
    for unknown in (None, most + 1):  # who says that does not know that the model reads less
        options = {"max_new_tokens": 8, "max_length": unknown}
        with pytest.raises(ValueError, match=problem):
            tokens(gpt2, "text-generation", [3, most + 1], **options)
    assert tokens(gpt2, "text-generation", [9_999], max_new_tokens=8, max_length=most) == [most]
    assert capsys.readouterr().out == ""


def test_half_a_text_is_not_translated(tmp_path: Path) -> None:
    save_nllb(tmp_path)
    languages = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
    with pytest.raises(ValueError, match=r"the model has room for 64; it is not cut off"):
        tokens(tmp_path, "translation", [80], **languages)
    assert tokens(tmp_path, "translation", [80], max_length=64, **languages) == [64]


@pytest.mark.parametrize(
    ("task", "options", "way_out"),
    [
        ("text-classification", {}, "The step chunk_text makes several rows"),
        ("feature-extraction", {"max_length": 65}, "The step chunk_text makes several rows"),
        ("token-classification", {}, "With model.options.stride it reads all of them"),
    ],
)
def test_that_texts_are_cut_off_is_said_once(
    task: Any, options: Any, way_out: str, bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = HuggingFaceModel(task=task, name_or_path=str(bert), options=options)
    preprocess, most = model.preprocessor(), 64
    preprocess(rows_of("text", ["a " * (most - 2), "a"]))  # with two special tokens all of it
    assert capsys.readouterr().out == ""
    for _ in range(2):
        preprocess(rows_of("text", ["a", "a " * 9_999]))
    told = capsys.readouterr().out
    assert told.count(f"texts longer than {most} tokens are cut off there") == 1
    assert way_out in told
    assert f"if that is intended, set model.options.max_length: {most}" in told
    assert tokens(bert, task, [9_999], max_length=most) == [most]
    assert capsys.readouterr().out == ""


def test_no_text_is_no_text_too_long(bert: Path) -> None:
    assert tokens(bert, "text-classification", []) == []


def test_a_model_that_says_minus_one_has_no_limit(tmp_path: Path) -> None:
    from transformers import XLNetConfig, XLNetForSequenceClassification

    sizes = {"d_model": 8, "n_layer": 1, "n_head": 1, "d_inner": 8}
    config = XLNetConfig(vocab_size=len(VOCABULARY), **sizes)
    assert config.max_position_embeddings == -1
    saved(XLNetForSequenceClassification(config), tmp_path)
    letters = tokenizer(with_pairs=True)
    letters.model_max_length = 10**30
    letters.save_pretrained(tmp_path)
    assert tokens(tmp_path, "text-classification", [700]) == [702]
    assert tokens(tmp_path, "text-classification", [700], max_length=5) == [5]


@pytest.mark.parametrize("most", [1, 2])
def test_a_length_that_leaves_nothing_of_a_text_is_refused(bert: Path, most: int) -> None:
    """By two all texts would look alike, and by one none would be cut off."""
    model = HuggingFaceModel.model_validate(
        {
            "task": "text-classification",
            "name_or_path": str(bert),
            "pair_column": "pair",
            "options": {"max_length": most},
        }
    )
    with pytest.raises(InvalidSpec, match=rf"max_length: {most} leaves .* set at least 3$"):
        model.check()
    with pytest.raises(InvalidSpec, match=r"beside the 3 tokens .* set at least 4$"):
        model.preprocessor()
    with pytest.raises(InvalidSpec, match=rf"max_length: {most} leaves .* set at least 3$"):
        tokens(bert, "feature-extraction", [5], max_length=most)
    assert tokens(bert, "feature-extraction", [5], max_length=3) == [3]


def test_whether_there_is_room_to_write_is_known_without_loading_anything(gpt2: Path) -> None:
    script = f"""
import sys
from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
given = {{"task": "text-generation", "name_or_path": {str(gpt2)!r}}}
HuggingFaceModel.model_validate({{**given, "options": {{"max_new_tokens": 63}}}}).check()
try:
    HuggingFaceModel.model_validate({{**given, "options": {{"max_new_tokens": 64}}}}).check()
except InvalidSpec as error:
    print(error, {{"torch", "transformers"}} & {{*sys.modules}})
"""
    said = in_a_clean_process(script)
    assert "max_new_tokens: 64 leaves no room for the prompt" in said
    assert said.rstrip().endswith("set()")


def test_t5_writes_as_much_as_it_is_asked_for(tmp_path: Path) -> None:
    """Its places are relative, whatever its files say of positions."""
    save_t5(tmp_path, n_positions=16)
    given = {"task": "summarization", "name_or_path": str(tmp_path)}
    HuggingFaceModel.model_validate({**given, "options": {"max_new_tokens": 99}}).check()
