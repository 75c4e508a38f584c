"""Pairs of texts, as cross-encoders score them: what transformers' own pipeline makes of each."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tests.kinds.tiny_models import rows_of, save_bert, texts

TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pairs")
    save_bert(made)
    return made


def model(folder: Path, **fields: Any) -> HuggingFaceModel:
    given = {"column": "question", "pair_column": "passage", **fields}
    task = given.pop("task", "text-classification")
    return HuggingFaceModel(task=task, name_or_path=str(folder), **given)


def pairs(passages: list[Any]) -> pa.Table:
    questions = texts(len(passages), longest=12)
    return rows_of("question", questions).append_column("passage", [passages])


@pytest.mark.parametrize("num_labels", [1, 3])
def test_scores_are_the_pipelines(
    tmp_path: Path, num_labels: int, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from transformers import AutoConfig, BertForSequenceClassification, pipeline

    save_bert(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path, num_labels=num_labels)
    torch.manual_seed(1)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    rows = pairs(texts(30))
    made = model(tmp_path)
    found = made.predictor(Placement())(made.preprocessor()(rows))
    alone = pipeline("text-classification", model=str(tmp_path), truncation=True)
    both = [{"text": q, "text_pair": p} for _, q, p in zip(*rows.to_pydict().values(), strict=True)]
    wanted = [alone(each, max_length=64) for each in both]
    assert found["predicted_label"].to_pylist() == [each["label"] for each in wanted]
    scores = [each["score"] for each in wanted]
    np.testing.assert_allclose(found["predicted_score"].to_numpy(), scores, atol=TOLERANCE)
    assert capsys.readouterr().out.count("texts longer than 64 tokens are cut off there") == 1


def test_a_pair_that_lacks_a_text_is_a_rows_fault(folder: Path) -> None:
    with pytest.raises(ValueError, match="column 'passage' is empty in this row"):
        model(folder).preprocessor()(pairs(["a", None]))


def test_the_second_column_is_looked_at_before_anything_is_loaded(folder: Path) -> None:
    made = model(folder)
    assert made.reads == {"column": ["question"], "pair_column": ["passage"]}
    with pytest.raises(InvalidSpec, match=r"model.pair_column: 'passage' is int64, not text"):
        made.refuse_types(pairs([1, 2]).schema)
    with pytest.raises(ValidationError, match=r"model.pair_column: is for text-classification"):
        model(folder, task="feature-extraction")
