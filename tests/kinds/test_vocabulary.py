"""A tokenizer may have been given tokens that its model was not: they are told of, or not used."""

from pathlib import Path
from typing import Any

import pytest

from tasks.kinds.models.hf.vocabulary import tokens_known
from tests.kinds.tiny_clip import save_clip
from tests.kinds.tiny_encoders import save_encoder
from tests.kinds.tiny_models import VOCABULARY, predicted, rows_of, save_bert, save_gpt2, texts

NEW = "[NEW]"


def add_token(folder: Path, name: str) -> None:
    """Give a tokenizer a further token for something, and its model none."""
    from transformers import AutoTokenizer

    made = AutoTokenizer.from_pretrained(folder)
    made.add_special_tokens({name: NEW})
    assert made.convert_tokens_to_ids(NEW) == len(VOCABULARY)
    made.save_pretrained(folder)


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize(
    ("save", "task", "column", "options"),
    [
        (save_gpt2, "text-generation", "prompt", {"max_new_tokens": 5}),
        (save_bert, "feature-extraction", "text", {}),
        (save_bert, "text-classification", "text", {"top_k": 3}),
    ],
)
def test_what_stands_for_padding_is_a_token_of_the_models(
    tmp_path: Path, save: Any, task: str, column: str, options: Any, batch_size: int | None
) -> None:
    save(tmp_path)
    rows = rows_of(column, texts(12, longest=20))
    before = predicted(tmp_path, task, rows, batch_size, **options)
    add_token(tmp_path, "pad_token")
    assert predicted(tmp_path, task, rows, batch_size, **options) == before


@pytest.mark.parametrize("task", ["text-generation", "feature-extraction", "text-classification"])
def test_a_token_that_the_model_does_not_know_is_named(tmp_path: Path, task: str) -> None:
    writes = task == "text-generation"
    (save_gpt2 if writes else save_bert)(tmp_path)
    add_token(tmp_path, "mask_token")
    column, options = ("prompt", {"max_new_tokens": 5}) if writes else ("text", {})
    predicted(tmp_path, task, rows_of(column, ["a b"]), **options)
    message = r"holds the token '\[NEW\]', number 24 of its tokenizer, but the model knows 24: "
    with pytest.raises(ValueError, match=message):
        predicted(tmp_path, task, rows_of(column, ["a b", f"a {NEW}"]), **options)


def test_a_model_that_makes_vectors_of_letters_has_no_list_of_tokens(tmp_path: Path) -> None:
    assert tokens_known(save_encoder(tmp_path, "canine", "feature-extraction")) is None


def test_the_list_of_a_model_of_images_as_well_is_none_that_is_too_short(tmp_path: Path) -> None:
    from transformers import AutoModel

    save_clip(tmp_path)
    known = tokens_known(AutoModel.from_pretrained(tmp_path))
    assert known is None or known >= len(VOCABULARY)
