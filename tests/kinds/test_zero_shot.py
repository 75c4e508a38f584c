"""Images by words get the scores of transformers' own pipeline."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tests.kinds.tiny_clip import TEXT, save_aimv2, save_align, save_clip, save_siglip
from tests.kinds.tiny_models import PROCESSORS, images, png, predicted, rows_of, save_bert, save_vit

TASK = "zero-shot-image-classification"
LABELS = ["a b c", "d", "e f g h i j", "k l", "t s r"]
GREY_LEVELS = 0.02
"""Of scores: one grey level in some pixels moves them a little."""


@pytest.mark.parametrize("template", [None, "q {} p"])
@pytest.mark.parametrize("save", [save_clip, save_siglip, save_align])
def test_the_scores_are_those_of_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any, template: str | None
) -> None:
    from transformers import pipeline

    monkeypatch.setitem(TEXT, "max_position_embeddings", 64)  # the pipeline takes it for SigLIP's
    save(tmp_path)
    pictures = images(6)
    options: dict[str, Any] = {"candidate_labels": LABELS, "top_k": len(LABELS)}
    asked: dict[str, Any] = {} if template is None else {"hypothesis_template": template}
    options |= asked
    rows = rows_of("image", [png(each) for each in pictures])
    found = predicted(tmp_path, TASK, rows, **options)
    library: Any = pipeline(TASK, str(tmp_path), device="cpu")
    for image, ours in zip(pictures, found.to_pylist(), strict=True):
        theirs = library(Image.fromarray(image), candidate_labels=LABELS, **asked)
        wanted = {each["label"]: each["score"] for each in theirs}
        scores = dict(zip(ours["predicted_label"], ours["predicted_score"], strict=True))
        assert scores.keys() == wanted.keys()
        assert [*scores.values()] == sorted(scores.values(), reverse=True)
        assert scores == pytest.approx(wanted, abs=GREY_LEVELS)
    best = predicted(tmp_path, TASK, rows, **options | {"top_k": None})
    firsts = [labels[0] for labels in found["predicted_label"].to_pylist()]
    assert best["predicted_label"].to_pylist() == firsts
    assert len({*firsts}) > 1 or len({*np.round(best["predicted_score"].to_numpy(), 4)}) > 1


def test_what_gives_no_such_scores_is_refused(tmp_path: Path) -> None:
    import torch
    from transformers import ViTImageProcessor

    rows = rows_of("image", [png(each) for each in images(1)])
    other, vit, bert = (tmp_path / name for name in ("other", "vit", "bert"))
    model = save_aimv2(other)  # which takes no scale above 100
    predictions: dict[str, Any] = {"candidate_labels": LABELS}
    ViTImageProcessor(**PROCESSORS["stretched"]).save_pretrained(other)
    predicted(other, TASK, rows, **predictions)
    with torch.no_grad():
        model.logit_scale.fill_(6)
    model.save_pretrained(other)
    with pytest.raises(InvalidSpec, match="is of type Aimv2Model, which compares images"):
        predicted(other, TASK, rows, **predictions)
    save_vit(vit)
    given = {"task": TASK, "name_or_path": str(vit), "options": predictions}
    with pytest.raises(InvalidSpec, match="has no tokenizer"):
        HuggingFaceModel.model_validate(given).check()
    save_bert(bert)
    ViTImageProcessor(**PROCESSORS["stretched"]).save_pretrained(bert)
    with pytest.raises(InvalidSpec, match="is of type BertModel, which does not compare images"):
        HuggingFaceModel.model_validate(given | {"name_or_path": str(bert)}).check()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "candidate_labels: list the labels that zero-shot-image-classification chooses from"),
        ({"candidate_labels": []}, "at least 1 item"),
        ({"candidate_labels": ["a", "a"]}, "has a label twice"),
        ({"candidate_labels": ["a", " "]}, "an empty one"),
        ({"candidate_labels": ["a"], "hypothesis_template": "photo"}, "needs exactly one place"),
        ({"candidate_labels": ["a"], "pooling": "mean"}, "pooling.*is for"),
    ],
)
def test_labels_must_be_some(options: dict[str, Any], problem: str) -> None:
    given = {"task": TASK, "name_or_path": "some/clip"}
    for each in [{**given, "options": options}, *([given] if not options else [])]:
        with pytest.raises(ValidationError, match=problem):
            HuggingFaceModel.model_validate(each)
