"""Texts by words get the scores of transformers' own pipeline."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.label_pairs import Frames
from tests.kinds.tiny_models import NLI, predicted, rows_of, save_bert, save_nli, texts, tokenizer
from tests.kinds.tiny_writers import save_classifying_bart

TASK = "zero-shot-classification"
LABELS = ["a b c", "d", "e f g h i j", "k l", "t s r"]
TOLERANCE = 2e-5
Save = Callable[[Path], Any]


def named(*names: str) -> Save:
    return lambda folder: save_nli(folder, names)


def save_bart_nli(folder: Path) -> Any:
    """Which reads padding, and has its say at a pair's end."""
    model = save_classifying_bart(folder)
    model.config.id2label = dict(enumerate([*NLI, "none of these"]))
    model.config.label2id = {name: at for at, name in model.config.id2label.items()}
    model.save_pretrained(folder)


@pytest.mark.parametrize(
    ("save", "labels", "asked"),
    [
        (named("contradiction", "neutral", "entailment"), LABELS, {}),
        (named("contradiction", "neutral", "entailment"), LABELS, {"multi_label": True}),
        (named("ENTAILMENT", "NEUTRAL", "CONTRADICTION"), LABELS, {"multi_label": True}),
        (named("entailment", "not_entailment"), LABELS, {"hypothesis_template": "q {} p"}),
        (named("entailment", "not_entailment"), LABELS, {"multi_label": True}),
        (named("contradiction", "neutral", "entailment"), LABELS[:1], {}),
        (save_bart_nli, LABELS, {"hypothesis_template": "q {} p"}),
    ],
)
def test_the_scores_are_those_of_the_pipeline(
    tmp_path: Path,
    save: Save,
    labels: list[str],
    asked: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers import pipeline

    save(tmp_path)
    given = texts(24)
    options: dict[str, Any] = {"candidate_labels": labels, **asked}
    rows = rows_of("text", given)
    found = predicted(tmp_path, TASK, rows, **options, top_k=max(2, len(labels)))
    assert capsys.readouterr().out.count("texts longer than 64 tokens are cut off there") == 1
    library: Any = pipeline(TASK, str(tmp_path), device="cpu")
    firsts = []
    for text, ours in zip(given, found.to_pylist(), strict=True):
        theirs = library(text, candidate_labels=labels, **asked)
        scores = dict(zip(ours["predicted_label"], ours["predicted_score"], strict=True))
        wanted = dict(zip(theirs["labels"], theirs["scores"], strict=True))
        assert scores == pytest.approx(wanted, abs=TOLERANCE)
        firsts.append(ours["predicted_label"][0])
    monkeypatch.setattr("tasks.kinds.models.hf.label_pairs.PAIRS_AT_A_TIME", 7 * len(labels) + 1)
    best = predicted(tmp_path, TASK, rows, **options)
    assert best["predicted_label"].to_pylist() == firsts
    assert len({*firsts}) > 1 or len(labels) == 1
    none = predicted(tmp_path, TASK, rows.slice(0, 0), **options)
    assert none.schema == best.schema


@pytest.mark.parametrize(
    ("save", "options", "problem"),
    [
        (save_bert, {}, "classes LABEL_0, LABEL_1, LABEL_2, but .* whose name has entail"),
        (named("entailment", "so", "so-so"), {"multi_label": True}, "whose name has contra"),
        (named("entailed", "entails"), {}, "whose name has entail"),
    ],
)
def test_a_model_that_judges_otherwise_is_refused(
    tmp_path: Path, save: Save, options: dict[str, Any], problem: str
) -> None:
    save(tmp_path)
    options = {"candidate_labels": LABELS, **options}
    made = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path), options=options)
    with pytest.raises(InvalidSpec, match=problem):
        made.check()


@pytest.mark.parametrize(("tokens", "fits"), [(60, True), (61, False)])
def test_a_label_leaves_room_for_a_text(tmp_path: Path, tokens: int, fits: bool) -> None:
    save_nli(tmp_path)
    long = " ".join(["a"] * tokens)
    options: dict[str, Any] = {"candidate_labels": ["b", long], "hypothesis_template": "{}"}
    made = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path), options=options)
    if fits:
        made.check()
        assert predicted(tmp_path, TASK, rows_of("text", ["a b c"]), **options).num_rows == 1
        return
    with pytest.raises(
        InvalidSpec, match=r"candidate_labels: 'a a.*' takes 64 tokens, with its temp"
    ):
        made.check()


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("has_types", [True, False])
def test_pairs_are_those_of_the_tokenizer(tmp_path: Path, side: str, has_types: bool) -> None:
    from transformers import AutoTokenizer

    save_nli(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, truncation_side=side)
    if not has_types:
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path)
    options = {"candidate_labels": LABELS, "hypothesis_template": "q {}", "max_length": 12}
    model = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path), options=options)
    given = [*texts(9, longest=20), "", "a"]
    made = model.preprocessor()(rows_of("text", given)).slice(1)  # of a longer table's memory
    pairs = Frames(model.checkpoint, model.options).pairs(made)
    wanted = tokenizer(
        [text for text in given[1:] for _ in LABELS],
        [f"q {label}" for _ in given[1:] for label in LABELS],
        truncation="only_first",
        max_length=12,
    )
    assert pairs["__input_ids"].to_pylist() == wanted["input_ids"]
    assert ("__token_type_ids" in pairs.column_names) is has_types
    if has_types:
        assert pairs["__token_type_ids"].to_pylist() == wanted["token_type_ids"]
    assert max(map(len, wanted["input_ids"])) == 12


def test_a_tokenizer_that_reads_pairs_otherwise_is_refused(tmp_path: Path) -> None:
    from tokenizers import processors

    save_nli(tmp_path)
    pairs = tokenizer(with_pairs=True)
    pairs.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$B:1 [SEP]:1 $A $A", special_tokens=[("[SEP]", 3)]
    )
    pairs.save_pretrained(tmp_path)
    options = {"candidate_labels": LABELS}
    made = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path), options=options)
    with pytest.raises(InvalidSpec, match="a tokenizer that reads a text differently in a pair"):
        made.check()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "candidate_labels: list the labels that zero-shot-classification chooses from"),
        ({"candidate_labels": ["a", "a"]}, "has a label twice"),
        ({"candidate_labels": ["a"], "prefix": "q"}, "prefix.*is for"),
    ],
)
def test_labels_must_be_some(options: dict[str, Any], problem: str) -> None:
    given = {"task": TASK, "name_or_path": "some/nli", "options": options}
    with pytest.raises(ValidationError, match=problem):
        HuggingFaceModel.model_validate(given)


def test_what_several_may_be_true_of_are_texts() -> None:
    options = {"candidate_labels": ["a"], "multi_label": True}
    with pytest.raises(ValidationError, match=r"multi_label: True is for zero-shot-classific"):
        HuggingFaceModel.model_validate(
            {"task": "zero-shot-image-classification", "name_or_path": "a/b", "options": options}
        )
