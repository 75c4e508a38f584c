"""Answers in texts, through the spec: those that are found pair by pair, by hand."""

from pathlib import Path

import pytest

from flows.testing import RunSpec
from tests.kinds.test_answers import ByHand, pairs
from tests.kinds.tiny_answers import save_answering

STRIDE, LONGEST, TOLERANCE = 20, 30, 1e-5


@pytest.mark.prefect
def test_answers_in_contracts(run_spec: RunSpec, tmp_path: Path) -> None:
    save_answering(tmp_path / "model")
    questions, contexts = pairs(8)
    rows = [
        {"contract_id": at, "question": question, "text": text}
        for at, (question, text) in enumerate(zip(questions, contexts, strict=True))
    ]
    done = run_spec(
        "deployments/specs/question-answering.yaml",
        f"model.name_or_path={tmp_path / 'model'}",
        f"model.options.stride={STRIDE}",
        "errors.max_rejected_fraction=0.5",
        rows=[*rows, {"contract_id": 8, "question": "a", "text": None}],
    )
    (aside,) = done.set_aside
    assert "column 'text' is empty in this row" in aside["error_message"]
    plain = ByHand(tmp_path / "model", STRIDE, LONGEST, impossible=True)
    assert len(done.rows) == len(rows)
    for row in done.rows:
        at = row["contract_id"]
        answer, score, start, end = plain.answer(questions[at], contexts[at])
        assert (row["answer"], row["start"], row["end"]) == (answer, start, end)
        assert row["score"] == pytest.approx(score, abs=TOLERANCE)
        assert "text" not in row
