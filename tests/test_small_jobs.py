"""A run is told that it needs no Ray where its plan is small, and only then."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.plan import make_plan
from tasks.small_jobs import advice_for_small, seconds_of
from tests.flows.conftest import spec_of

LOCAL = {"kind": "local"}
NO_GPU = {"num_gpus": 0}


def numbers(folder: Path, rows: int) -> Path:
    source = folder / "numbers"
    source.mkdir()
    ids = list(range(rows))
    pq.write_table(pa.table({"id": ids, "x": [float(i) for i in ids]}), source / "0.parquet")
    return source


@pytest.mark.parametrize(
    ("rows", "changes", "is_small"),
    [
        (100, {"cluster": LOCAL, "resources": NO_GPU}, True),
        (20_000, {"cluster": LOCAL, "resources": NO_GPU}, False),
        (100, {"cluster": LOCAL, "resources": {"num_gpus": 1}}, False),
        (100, {"cluster": {**LOCAL, "address": "10.0.0.1:1"}, "resources": NO_GPU}, False),
        (100, {"cluster": {"kind": "inline"}, "resources": NO_GPU}, False),
        (100, {"cluster": LOCAL, "resources": {**NO_GPU, "min_replicas": 2}}, False),
        (100, {"cluster": LOCAL, "environment": {"env_vars": {"A": "b"}}}, False),
    ],
)
def test_few_rows_need_no_ray(
    rows: int, changes: Any, is_small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.plan.check_spec", lambda spec: {"model": "", "code": ""})
    planned = make_plan(spec_of(numbers(tmp_path, rows), **changes), save=False)
    advice = advice_for_small(planned)
    assert (advice is not None) == is_small
    if advice:
        assert " bytes)" in advice
        assert "cluster.kind: inline" in advice


def test_the_speed_of_the_last_version_counts_where_it_is_known() -> None:
    assert seconds_of(10_000, 5_000.0) == "10,000 rows, 2.0 s at the last version's speed"
    assert seconds_of(100, 1.0) is None


def test_a_ray_that_runs_already_need_not_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.plan.check_spec", lambda spec: {"model": "", "code": ""})
    planned = make_plan(spec_of(numbers(tmp_path, 100), cluster=LOCAL, resources=NO_GPU))
    assert advice_for_small(planned)
    monkeypatch.setattr("tasks.clusters.choose.ray_at_hand", lambda: "127.0.0.1:6379")
    assert advice_for_small(planned) is None
