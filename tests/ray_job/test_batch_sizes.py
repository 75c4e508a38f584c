"""How large batches are where the user has no wish."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.plan import make_plan
from tasks.protocol.ids import Ids
from tasks.protocol.infos import stat_local
from tasks.protocol.plan_file import Shard
from tasks.ray_job.batch_sizes import in_equal_shares, likely_rows_left, rows_left
from tasks.ray_job.counts import Counts
from tasks.ray_job.opening import Todo
from tasks.ray_job.progress import Progress
from tasks.run import left_to_do, new_job
from tests.ray_job.test_own_machine import job_of, spec

IMAGES = {"source": {"kind": "images", "path": "in"}}
TREES = {"model": {"kind": "xgboost", "path": "model.ubj"}}
TEXTS = {"model": {"kind": "huggingface", "task": "feature-extraction", "name_or_path": "bert"}}
PROMPTS = {"model": {"kind": "huggingface", "task": "text-generation", "name_or_path": "gpt2"}}
SIZES: dict[str, tuple[dict[str, Any], int | None, int]] = {
    # Of two replicas each is to have twelve.
    "what each replica is to have": ({}, 24_000, 1_024),  # a multiple of the 64 in a call
    "of many rows no more than can be lost": ({}, 1_000_000, 2_048),
    "of few rows no fewer than are worth it": ({}, 1_000, 256),
    "nobody knows how many there are": ({}, None, 2_048),
    "as asked": ({"stages": {"read": {"rows_per_batch": 700}}}, 24_000, 700),
    "whole calls": ({"resources": {"batch_size": 500}}, 24_000, 1_000),
    "a call is all of it": ({"resources": {"batch_size": 5_000}}, 24_000, 5_000),
    "images": (IMAGES, 600, 64),
    "trees": (TREES, 40_000_000, 1_048_576),
    "some trees": (TREES, 2_400_000, 100_000),
    "few trees": (TREES, 200_000, 65_536),
    "texts that are sorted": (TEXTS, 6_000, 1_024),
    "texts that are written": (PROMPTS, 1_000, 256),
    "files of so many rows": (
        {"sink": {"kind": "parquet", "path": "out", "rows_per_file": 512}},
        24_000,
        512,
    ),
}


@pytest.mark.parametrize(("changes", "rows", "wanted"), SIZES.values(), ids=SIZES)
def test_every_replica_gets_its_share(
    changes: dict[str, Any], rows: int | None, wanted: int
) -> None:
    asked = spec(**changes)
    two = asked.resources.model_copy(update={"max_replicas": 2})
    job = job_of(asked.model_copy(update={"resources": two}))
    assert in_equal_shares(job, rows).spec.rows_per_batch == wanted


NUMBERS = pa.schema([("id", pa.int64()), ("x", pa.float32()), ("at", pa.timestamp("us"))])
WIDTHS: dict[str, tuple[pa.Schema, dict[str, Any], int | None, int]] = {
    "numbers": (NUMBERS, {}, 10_000_000, 16_384),
    "of unknown number": (NUMBERS, {}, None, 16_384),
    "fewer of them": (NUMBERS, {}, 24_000, 1_024),
    "text beside them": (NUMBERS.append(pa.field("t", pa.string())), {}, 10_000_000, 2_048),
    "as asked": (NUMBERS, {"stages": {"read": {"rows_per_batch": 700}}}, 10_000_000, 700),
    "trees": (NUMBERS, TREES, 100_000_000, 1_048_576),
    "small files": (
        NUMBERS,
        {"sink": {"kind": "parquet", "path": "out", "rows_per_file": 5_000}},
        10_000_000,
        5_000,
    ),
}


@pytest.mark.parametrize(("schema", "changes", "rows", "wanted"), WIDTHS.values(), ids=WIDTHS)
def test_of_small_rows_more_travel_together(
    schema: pa.Schema, changes: dict[str, Any], rows: int | None, wanted: int
) -> None:
    asked = spec(**changes)
    two = asked.resources.model_copy(update={"max_replicas": 2})
    pins = {"reader": {"schema": schema.serialize().to_pybytes().hex()}}
    job = replace(job_of(asked.model_copy(update={"resources": two})), pins=pins)
    assert in_equal_shares(job, rows).spec.rows_per_batch == wanted


def test_rows_that_are_kept_for_another_job_stay_as_they_are() -> None:
    job = job_of(spec(), 600, stages=("read", "preprocess"))
    assert in_equal_shares(job, 600) == job


@pytest.mark.parametrize(
    ("covered", "wanted", "rows"),
    [
        ([], None, 100),
        (range(30), None, 70),
        ([], [3, 4], 2),  # of a redrive
    ],
)
def test_what_is_settled_is_not_left(
    covered: list[int], wanted: list[int] | None, rows: int, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("a line\n" * 100)
    stat = stat_local(str(tmp_path / "a.txt"))
    assert stat
    job = job_of(spec(source={"kind": "text", "path": str(tmp_path)}))
    shard = Shard(0, stat.path, stat.identity, stat.size)
    todo = Todo(shard, ids(covered), None if wanted is None else ids(wanted), {})
    assert rows_left(job, todo) == rows


def ids(numbers: Any) -> Ids:
    return np.array([*numbers], dtype=np.int64)


def test_where_nothing_can_be_reckoned_the_job_goes_on(tmp_path: Path) -> None:
    job = job_of(spec(sink={"kind": "parquet", "path": str(tmp_path / "out")}))
    assert likely_rows_left(job) is None  # there is no todo
    assert likely_rows_left(replace(job, todo_rows=7)) == 7


def test_a_total_is_told_from_the_start() -> None:
    job = replace(job_of(spec()), todo_bytes=1_000)
    progress = Progress(job, Counts().snapshot, num_reads=4, likely_rows=500)
    totals = [
        progress.total_of({"rows": rows, "size": size, "tasks": tasks})
        for rows, size, tasks in [
            (0, 0, 0),
            (200, 100, 0),
            (600, 400, 0),
            (540, 600, 2),
            (900, 0, 4),
        ]
    ]
    assert totals == [500, 500, 600, 900, 900]


def test_the_largest_shards_tell(tmp_path: Path) -> None:
    """Those that come first may have a header and no row."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(40):
        rows = 0 if number < 30 else 500 * (number - 29)
        lines = "".join(f"{row},{row}.5\n" for row in range(1_000, 1_000 + rows))
        (folder / f"{number:02d}.csv").write_text(f"id,x\n{lines}")
    ours = spec(
        source={"kind": "csv", "path": str(folder)},
        steps=[],
        model={"kind": "python", "class": "math:sqrt"},
        sink={"kind": "parquet", "path": str(tmp_path / "out")},
        environment={"working_dir": str(tmp_path)},
    )
    planned = make_plan(ours)
    job = new_job(planned, left_to_do(planned, tried=False), attempt=1)
    assert job.todo_rows is None
    assert likely_rows_left(job) == pytest.approx(500 * 55, rel=0.05)
