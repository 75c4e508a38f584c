"""Texts by labels in words, through the spec: what transformers' own pipeline says of each."""

from pathlib import Path
from typing import Any

import pytest

from flows.testing import RunSpec
from tests.kinds.tiny_models import save_nli, texts

REVIEWS = [*texts(12, longest=40), None]
LABELS = ["a b", "c", "d e f"]
TOLERANCE = 2e-5


@pytest.mark.prefect
def test_reviews_by_words(run_spec: RunSpec, tmp_path: Path) -> None:
    from transformers import pipeline

    save_nli(tmp_path / "nli")
    fields = [f"model.name_or_path={tmp_path / 'nli'}", f"model.options.candidate_labels={LABELS}"]
    rows = [{"review_id": at, "text": text} for at, text in enumerate(REVIEWS)]
    done = run_spec(
        "deployments/specs/zero-shot-texts.yaml",
        *fields,
        "errors.max_rejected_fraction=0.1",
        rows=rows,
    )
    (aside,) = done.set_aside
    assert "column 'text' is empty in this row" in aside["error_message"]
    library: Any = pipeline("zero-shot-classification", str(tmp_path / "nli"), device="cpu")
    found = {row["review_id"]: row for row in done.rows}
    assert len(found) == len(REVIEWS) - 1
    for number, row in found.items():
        said = library(
            REVIEWS[number],
            candidate_labels=LABELS,
            hypothesis_template="This text is about {}.",
            multi_label=True,
        )
        wanted = dict(zip(said["labels"], said["scores"], strict=True))
        ours = dict(zip(row["predicted_label"], row["predicted_score"], strict=True))
        assert ours == pytest.approx(wanted, abs=TOLERANCE)
