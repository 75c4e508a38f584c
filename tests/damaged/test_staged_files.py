"""Staged files that somebody has cut short or emptied before their run was published."""

from pathlib import Path

import pytest

from tasks.errors import InvalidSpec
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tasks.published import published_rows, rows_set_aside
from tasks.run import left_to_do
from tests.reporting import classify_spec, make_inputs, run_attempt


@pytest.mark.parametrize("ending", [".set_aside.parquet", ".parquet"])
def test_rows_of_a_file_that_was_cut_short_are_predicted_again(tmp_path: Path, ending: str) -> None:
    make_inputs(tmp_path / "in", files=2)
    spec = classify_spec(tmp_path, {"bad": [3]})
    planned = make_plan(spec)
    run_attempt(planned)
    staged = sorted(Path(planned.run.staging).glob(f"*{ending}"))
    staged[0].write_bytes(staged[0].read_bytes()[:-1])
    assert left_to_do(planned, tried=False)
    run_attempt(planned)
    publish_planned(planned)
    assert sorted(published_rows(spec)["id"].to_pylist()) == [id_ for id_ in range(100) if id_ != 3]
    assert [row["row"] for row in rows_set_aside(spec)] == [3]


def test_one_that_cannot_be_judged_is_named(tmp_path: Path) -> None:
    """It is as long as it was, so that only who reads it sees that."""
    make_inputs(tmp_path / "in", files=2)
    spec = classify_spec(tmp_path, gates=[{"kind": "accuracy", "minimum": 0.5}])
    planned = make_plan(spec)
    run_attempt(planned)
    file = min(Path(planned.run.staging).iterdir())
    file.write_bytes(b"\xff" * len(file.read_bytes()))
    with pytest.raises(InvalidSpec, match=rf"'{file}' is not as it was written .* delete it and"):
        publish_planned(planned)
    file.unlink()
    run_attempt(make_plan(spec))
    publish_planned(planned)
    assert len(published_rows(spec)) == 100
