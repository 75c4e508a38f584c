"""Answers are those of the usual way to find them, done pair by pair and window by window."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.faked import faked
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf import answers
from tasks.kinds.models.hf.architectures import OF_PAGES
from tasks.kinds.models.hf.transformers_types import types_of_finders
from tasks.kinds.models.model import Placement
from tests.kinds.tiny_answers import (
    save_answering,
    save_answering_encoder_decoder,
    save_answering_from_the_text_on,
    save_answering_in_pieces,
    save_answering_with_a_short_decoder,
)
from tests.kinds.tiny_models import WORDS, predicted, rows_of, save_bert, texts

TASK = "question-answering"
TOLERANCE = 1e-5
Save = Callable[[Path], Any]


def pairs(count: int) -> tuple[list[str], list[str]]:
    """Questions, and texts of which some are of several windows."""
    return texts(count, longest=8), texts(count, longest=180)


def words(count: int) -> list[str]:
    """Texts of words of several letters."""
    random = np.random.default_rng(1)
    return [
        " ".join(
            "".join(random.choice(WORDS, random.integers(1, 6)))
            for _ in range(random.integers(3, 40))
        )
        for _ in range(count)
    ]


def rows(questions: list[str], contexts: list[str]) -> pa.Table:
    return rows_of("question", questions).append_column("context", pa.array(contexts))


class ByHand:
    """Finds answers without our code."""

    def __init__(self, folder: Path, stride: int, longest: int, impossible: bool) -> None:
        from transformers import AutoModelForQuestionAnswering, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
        self.stride, self.longest, self.impossible = stride, longest, impossible

    def answer(self, question: str, context: str) -> tuple[str, float, int, int]:
        import torch

        text_first = self.tokenizer.padding_side == "left"
        text = 0 if text_first else 1
        read = self.tokenizer(
            *((context, question) if text_first else (question, context)),
            truncation="only_first" if text_first else "only_second",
            max_length=64,
            stride=self.stride,
            return_overflowing_tokens=True,
        )
        best, nothing = (-1.0, 0, 0), 2.0
        for at, tokens in enumerate(read["input_ids"]):
            given = {"input_ids": torch.tensor([tokens])}
            if not self.model.config.is_encoder_decoder:
                given["token_type_ids"] = torch.tensor([read["token_type_ids"][at]])
            with torch.no_grad():
                out = self.model(**given)
            own = [place for place, which in enumerate(read.sequence_ids(at)) if which == text]
            none = tokens.index(self.tokenizer.cls_token_id)
            starts, ends = (
                dict(zip([none, *own], each[0, [none, *own]].softmax(-1).tolist(), strict=True))
                for each in (out.start_logits, out.end_logits)
            )
            nothing = min(nothing, starts[none] * ends[none])
            for first in own:
                for last in range(first, min(first + self.longest, own[-1] + 1)):
                    score = starts[first] * ends[last]
                    if score > best[0]:
                        begin, end = (read.token_to_word(at, each) for each in (first, last))
                        start, _ = read.word_to_chars(at, begin, text)
                        best = (score, start, read.word_to_chars(at, end, text)[1])
        if self.impossible and nothing > best[0]:
            return "", nothing, 0, 0
        return context[best[1] : best[2]], *best


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize(
    "save",
    [
        save_answering,
        save_answering_in_pieces,
        save_answering_from_the_text_on,
        save_answering_encoder_decoder,
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 30, "max_answer_length": 3},
        {"stride": 0, "max_answer_length": 40, "impossible_answers": True},
    ],
)
def test_answers_are_those_found_by_hand(
    tmp_path: Path, save: Save, options: dict[str, Any], batch_size: int | None
) -> None:
    save(tmp_path)
    questions, contexts = pairs(14)
    contexts = words(14) if save is save_answering_in_pieces else contexts
    given = rows(questions, contexts)
    found = predicted(tmp_path, TASK, given, batch_size, **options).to_pylist()
    stride = options.get("stride", (64 - 3) // 3)
    longest = options.get("max_answer_length", 15)
    plain = ByHand(tmp_path, stride, longest, bool(options.get("impossible_answers")))
    on_the_left = save is save_answering_from_the_text_on
    assert plain.tokenizer.padding_side == ("left" if on_the_left else "right")
    for row, question, context in zip(found, questions, contexts, strict=True):
        answer, score, start, end = plain.answer(question, context)
        assert (row["answer"], row["start"], row["end"]) == (answer, start, end)
        assert row["score"] == pytest.approx(score, abs=TOLERANCE)
    assert len({row["answer"] for row in found}) > 6
    if "impossible_answers" in options and save is save_answering_in_pieces:
        assert any(row["answer"] == "" for row in found)


@pytest.mark.parametrize(
    ("question", "context", "message"),
    [
        (None, "a b", "'question' is empty in this row"),
        ("a", None, "'context' is empty in this row"),
        ("a", "  ", "'context' has no words in this row"),
        ("", "a b", "'question' has no words in this row"),
        ("a " * 45, "b " * 17, "question has 45 tokens, but there is room for 40, beside its text"),
        ("a " * 41, "b " * 90, r"question has 41 tokens, .* for 40, beside its text in windows"),
    ],
)
def test_what_cannot_be_answered_is_an_error(
    tmp_path: Path, question: str | None, context: str | None, message: str
) -> None:
    save_answering(tmp_path)
    given = pa.table({"question": pa.array([question], pa.string())})
    given = given.append_column("context", pa.array([context], pa.string()))
    model = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path))
    with pytest.raises(ValueError, match=message):
        model.preprocessor()(given)


@pytest.mark.parametrize(
    ("finder", "model_type"),
    [
        *(("LayoutLMv3", "layoutlmv3"), ("Lilt", "lilt"), ("MarkupLM", "markuplm")),
        *(("Tapas", "tapas"), ("LayoutLM", "layoutlm"), ("Vilt", "vilt"), ("Blip", "blip")),
    ],
)
def test_a_model_that_wants_more_than_texts_is_refused(
    tmp_path: Path, finder: str, model_type: str
) -> None:
    save_answering(tmp_path)
    file = tmp_path / "config.json"
    made = {"architectures": [f"{finder}ForQuestionAnswering"], "model_type": model_type}
    file.write_text(json.dumps({**json.loads(file.read_text()), **made}))
    with pytest.raises(InvalidSpec, match=f"is of type {model_type}, for which .* bert or deb"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()


def test_the_types_of_models_that_find_answers_are_those_that_transformers_lists() -> None:
    from transformers.models.auto import modeling_auto

    listed = {*modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES}
    assert types_of_finders() == listed
    assert {*OF_PAGES} < listed


def test_an_encoder_decoder_reads_what_both_of_its_halves_can(tmp_path: Path) -> None:
    save_answering_encoder_decoder(tmp_path / "bart")
    save_answering_with_a_short_decoder(tmp_path / "led")
    for name in ("bart", "led"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path / name)).check()
    found = predicted(tmp_path / "led", TASK, rows(["a b"], ["c d e " * 20]))
    assert set(found["answer"].to_pylist()[0].split()) <= {*"cde"}
    with pytest.raises(InvalidSpec, match="encoder-decoder"):
        HuggingFaceModel(task="token-classification", name_or_path=str(tmp_path / "bart")).check()


def test_the_longest_question_leaves_room(tmp_path: Path) -> None:
    save_answering(tmp_path)
    found = predicted(tmp_path, TASK, rows(["a " * 40], ["b " * 90]))
    assert found["answer"].to_pylist()[0].startswith("b")
    alone = predicted(tmp_path, TASK, rows(["a " * 45, "a " * 60], ["b " * 16, "b"]))
    assert all(each.startswith("b") for each in alone["answer"].to_pylist())
    none = predicted(tmp_path, TASK, rows(["a"], ["b"])[:0])
    assert none.schema == found.schema


def test_other_columns_and_other_models(tmp_path: Path) -> None:
    save_answering(tmp_path / "finds")
    save_bert(tmp_path / "bert")
    fields: dict[str, Any] = {"task": TASK, "name_or_path": str(tmp_path / "finds")}
    model = HuggingFaceModel(**fields, column="ask", pair_column="body")
    assert model.input_columns == ["ask", "body"]
    given = rows(["a b"], ["c d e"])
    renamed = given.rename_columns(["__row", "ask", "body"])
    mine = model.predictor(Placement())(model.preprocessor()(renamed))
    its = predicted(tmp_path / "finds", TASK, given)
    assert mine.select(["answer", "score"]) == its.select(["answer", "score"])
    made = faked(model).predictor(Placement())(renamed)
    names = ["answer", "score", "start", "end"]
    assert made.select(names).schema == mine.select(names).schema
    with pytest.raises(InvalidSpec, match="question-answering needs a model whose name has ForQ"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path / "bert")).check()
    for wrong, message in (
        ({"stride": 60}, r"stride: 60 leaves no room for a question among the 61 tokens"),
        ({"stride": 20, "max_length": 20}, r"stride: 20 leaves no room"),
    ):
        with pytest.raises(InvalidSpec, match=message):
            HuggingFaceModel(**fields, options=wrong).check()
    HuggingFaceModel(**fields, options={"stride": 59}).check()
    with pytest.raises(ValidationError, match="max_answer_length: 3 is for question-answering"):
        HuggingFaceModel(
            task="text-classification", name_or_path="a/b", options={"max_answer_length": 3}
        )


def test_the_likeliest_answer_is_found_where_none_is_likely(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForQuestionAnswering

    save_answering(tmp_path)
    model = AutoModelForQuestionAnswering.from_pretrained(tmp_path)
    with torch.no_grad():
        model.qa_outputs.weight *= 1_000
    model.save_pretrained(tmp_path)
    questions, contexts = pairs(14)
    found = predicted(tmp_path, TASK, rows(questions, contexts), max_answer_length=1).to_pylist()
    assert min(row["score"] for row in found) == 0
    for row in found:
        assert row["answer"] == row["context"][row["start"] : row["end"]]
        assert row["answer"] in WORDS


def test_long_texts_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_answering(tmp_path)
    read = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).preprocessor()
    given = rows([*WORDS[:16]], [f"{each} b c d " * 500 for each in WORDS[:16]])
    read(given[:1])
    peaks, found = [], []
    for characters in (10**9, 8_500):
        monkeypatch.setattr(answers, "CHARACTERS_AT_ONCE", characters)
        tracemalloc.start()
        found.append(read(given))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert found[0] == found[1]
    assert peaks[1] < peaks[0] / 4


def test_texts_share_a_reading_up_to_so_many_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CHARACTERS_AT_ONCE", 10)
    for lengths, stops in (
        ([], []),
        ([5, 5, 1], [2, 3]),
        ([99, 3, 99, 0], [1, 2, 3, 4]),
        ([3, 3, 3, 3, 0], [3, 5]),
    ):
        slices = [*answers.in_slices_of(np.array(lengths, np.int64))]
        assert [each.stop for each in slices] == stops
        assert [each.start for each in slices] == [0, *stops][: len(stops)]
