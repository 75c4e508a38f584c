"""Answers grow to whole words, whatever tokenizers call a word, and have no blanks around them."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tasks.kinds.models.hf.whole_words import of_whole_words, without_blanks
from tests.kinds.tiny_answers import save_finder
from tests.kinds.tiny_models import predicted, rows_of

TASK = "question-answering"
ENGLISH = "Ann lives in Paris, since 1,999. Bob's cafe\u0301 too"
CHINESE = "\u5de7\u4f4f\u5728\u5df4\u9ece\u3002"
PIECES = ("\u2581", "\u2581li", "ves", "\u2581Pa", "ris", "\u4f4f\u5728", "\u5df4\u9ece")


def reader(split: bool) -> Tokenizer:
    """A tokenizer of letters and some longer pieces, whose words are what stands between blanks.

    Args:
        split: else all of a text is one word to it, as to Llama's.
    """
    names = ["<s>", "</s>", "<unk>", *PIECES, *sorted({*ENGLISH, *CHINESE})]
    merges: list[tuple[str, str]] = []
    vocabulary = dict.fromkeys(names)
    for piece in PIECES:
        for at in range(1, len(piece)):
            merges.append((piece[:at], piece[at]))
            vocabulary[piece[: at + 1]] = None
    found = Tokenizer(
        models.BPE({name: at for at, name in enumerate(vocabulary)}, merges, unk_token="<unk>")
    )
    if split:
        found.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        steps: list[Any] = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        found.normalizer = normalizers.Sequence(steps)
        found.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    found.decoder = decoders.Metaspace()
    return found


def word_at(tokenizer: Tokenizer, text: str, part: str) -> str:
    """What an answer of the token becomes that a part of a text begins with."""
    read = tokenizer.encode(text)
    place = text.index(part)
    token = next(at for at, (_, end) in enumerate(read.offsets) if end > place)
    start, end = of_whole_words(text, read.offsets, read.word_ids)[token]
    start, end = without_blanks(text, start, end)
    return text[start:end]


@pytest.mark.parametrize("split", [True, False])
def test_words_end_where_letters_do(split: bool) -> None:
    tokenizer = reader(split)
    for part, word in (
        ("Ann", "Ann"),
        ("ves", "lives"),
        ("ris", "Paris"),
        ("999", "999"),
        ("ob's", "Bob"),
        ("fe", "cafe\u0301"),
        ("too", "too"),
    ):
        assert word_at(tokenizer, ENGLISH, part) == word
    for part in ("\u5df4\u9ece", "\u4f4f\u5728", "\u3002"):
        assert word_at(tokenizer, CHINESE, part) == part


def test_bytes_of_one_letter_are_of_its_word() -> None:
    tokens, text = [(0, 1), (1, 2), (1, 2), (2, 3)], "a\u00e9b c"
    assert of_whole_words(text, tokens, [0, 0, 0, 0]) == [(0, 3)] * 4
    wide = "\u4f4f\u5728"
    assert of_whole_words(wide, [(0, 1), (0, 1), (1, 2)], [0, 0, 0]) == [(0, 1), (0, 1), (1, 2)]


def test_blanks_are_of_the_word_that_follows() -> None:
    tokens = [(0, 2), (2, 3), (3, 4), (4, 6), (6, 7)]
    found = of_whole_words("in  19 ", tokens, [0, 1, 2, 3, 4])
    assert found == [(0, 2), (2, 6), (2, 6), (2, 6), (6, 7)]
    assert of_whole_words(" ", [(0, 1), (0, 2)], [0, None]) == [(0, 1), (0, 2)]


@pytest.mark.parametrize("split", [True, False])
def test_an_answer_is_no_longer_than_its_words(tmp_path: Path, split: bool) -> None:
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=reader(split),
        unk_token="<unk>",
        pad_token="</s>",
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(tmp_path)
    save_finder(tmp_path, reader(split).get_vocab_size())
    words = "Ann lives since in Paris"
    given = rows_of("question", ["too", "Bob", "in Paris", "since", "lives"])
    given = given.append_column("context", [[words] * len(given)])
    for row in predicted(tmp_path, TASK, given, max_answer_length=1).to_pylist():
        assert row["answer"] in words.split()
        assert words[row["start"] : row["end"]] == row["answer"]
