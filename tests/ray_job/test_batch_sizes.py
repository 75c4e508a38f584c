"""How large batches are where the user has no wish."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.plan import make_plan
from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.records import Encoded, store
from tasks.ray_job.batch_sizes import in_equal_shares, likely_rows_left, with_rows_per_batch
from tasks.ray_job.cluster import preparers_of
from tasks.ray_job.counts import AFTER_CUT, Counts, Report
from tasks.ray_job.job import Job
from tasks.ray_job.progress import Progress
from tasks.ray_job.reading import read_reported
from tasks.ray_job.shares import cut_shares
from tasks.ray_job.writing import batches_per_write
from tasks.run import left_to_do, new_job
from tests.ray_job.test_own_machine import ELSEWHERE, job_of, spec

IMAGES = {"source": {"kind": "images", "path": "in"}}
TREES = {"model": {"kind": "xgboost", "path": "model.ubj"}}
TEXTS = {"model": {"kind": "huggingface", "task": "feature-extraction", "name_or_path": "bert"}}
PROMPTS = {"model": {"kind": "huggingface", "task": "text-generation", "name_or_path": "gpt2"}}
VIT = {"kind": "huggingface", "task": "image-classification", "name_or_path": "vit"}
PHOTOS = IMAGES | {"model": VIT}
SIZES: dict[str, tuple[dict[str, Any], int | None, int]] = {
    # Of two replicas each is to have twelve.
    "what each replica is to have": ({}, 24_000, 1_024),  # a multiple of the 64 in a call
    "of many rows no more than can be lost": (TEXTS, 1_000_000, 2_048),
    "of many rows to own code": ({}, 1_000_000, 16_384),
    "of few rows no fewer than are worth it": ({}, 1_000, 256),
    "nobody knows how many there are": (TEXTS, None, 2_048),
    "as asked": ({"stages": {"read": {"rows_per_batch": 700}}}, 24_000, 700),
    "whole calls": ({"resources": {"batch_size": 500}}, 24_000, 1_000),
    "a call is all of it": ({"resources": {"batch_size": 5_000}}, 24_000, 5_000),
    "images": (IMAGES, 600, 64),
    "trees": (TREES, 40_000_000, 1_048_576),
    "some trees": (TREES, 2_400_000, 100_000),
    "few trees": (TREES, 200_000, 65_536),
    "texts that are sorted": (TEXTS, 6_000, 1_024),
    "texts that are written": (PROMPTS, 1_000, 256),
    "as many batches to each replica": (PROMPTS, 1_280, 320),  # and not three and two of 256
    "fewer rows than replicas could share": (PROMPTS, 100, 256),
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


@pytest.mark.parametrize(
    ("changes", "rows", "wanted"),
    [(TEXTS, 12_000, 2_048), (TREES, 200_000, 131_072), (IMAGES, 600, 64), ({}, 24_000, 2_048)],
)
def test_a_replica_alone_gets_larger_ones_of_few_rows(
    changes: dict[str, Any], rows: int, wanted: int
) -> None:
    asked = spec(**changes)
    one = asked.resources.model_copy(update={"max_replicas": 1})
    job = job_of(asked.model_copy(update={"resources": one}))
    assert in_equal_shares(job, rows).spec.rows_per_batch == wanted


@pytest.mark.parametrize(
    ("changes", "rows", "preparers", "wanted"),
    [
        (PHOTOS, 20_000, 16, 313),
        (PHOTOS, 1_000_000, 16, 2_048),
        (PHOTOS, 1_000, 16, 64),
        (TEXTS, 20_000, 16, 2_048),  # sorted by length, they want to be many
    ],
)
def test_workers_that_prepare_get_some_each(
    changes: dict[str, Any], rows: int, preparers: int, wanted: int
) -> None:
    asked = spec(**changes)
    one = asked.resources.model_copy(update={"max_replicas": 1})
    job = job_of(asked.model_copy(update={"resources": one}))
    assert in_equal_shares(job, rows, preparers).spec.rows_per_batch == wanted


@pytest.mark.parametrize(
    ("changes", "num_gpus", "wanted"),
    [
        (IMAGES, 1.0, 8),
        (IMAGES, 0.0, 0),  # replicas do it
        (IMAGES | {"cluster": ELSEWHERE}, 0.0, 8),
        (IMAGES | {"stages": {"preprocess": {"max_workers": 3}}}, 0.0, 3),
        (IMAGES | {"stages": {"preprocess": {"num_cpus": 2}}}, 1.0, 4),
    ],
)
def test_who_prepares_is_known(changes: dict[str, Any], num_gpus: float, wanted: int) -> None:
    assert preparers_of(job_of(spec(**changes)), num_gpus, 8.0) == wanted


SQL = {"kind": "sql", "path": "sqlite:////in.db", "table": "t", "key": "id"}
SHARES: dict[str, tuple[dict[str, Any], int, int | None, int]] = {
    "of a size": ({}, 10 << 30, 40_000_000, 40),
    "as many as keep cores busy": ({}, 1, 40_000_000, 16),
    "nobody knows how many rows": ({}, 1, None, 16),
    "of several batches each": (TEXTS, 1, 2_048 * 4 * 3, 3),
    "a single one of few rows": (TEXTS, 1, 3_000, 1),
    "of media, which take long to read": (IMAGES, 1, 3_000, 16),
    "of files elsewhere": ({"source": {"kind": "parquet", "path": "s3://in"}}, 1, 3_000, 16),
    "of a database": ({"source": SQL}, 1, 3_000, 16),
    "on other machines": ({"cluster": ELSEWHERE}, 1, 3_000, 16),
}


@pytest.mark.parametrize(("changes", "size", "rows", "wanted"), SHARES.values(), ids=SHARES)
def test_readers_get_their_share(
    changes: dict[str, Any], size: int, rows: int | None, wanted: int
) -> None:
    job = replace(job_of(spec(**changes)), num_shards=1_000, todo_bytes=size)
    shares = list(cut_shares(job, 4, rows))
    assert len(shares) == wanted
    assert shares[0][0] == 0
    assert shares[-1][1] == 1_000
    assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(shares))


NUMBERS = pa.schema([("id", pa.int64()), ("x", pa.float32()), ("at", pa.timestamp("us"))])
WIDTHS: dict[str, tuple[pa.Schema, dict[str, Any], int | None, int]] = {
    "numbers": (NUMBERS, {}, 100_000_000, 524_288),
    "of unknown number": (NUMBERS, {}, None, 524_288),
    "fewer of them": (NUMBERS, {}, 24_000, 1_024),
    "text beside them": (NUMBERS.append(pa.field("t", pa.string())), {}, 10_000_000, 16_384),
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


def test_where_nothing_can_be_reckoned_the_job_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(spec(sink={"kind": "parquet", "path": str(tmp_path / "out")}))
    assert likely_rows_left(replace(job, todo_rows=7)) == 7
    assert likely_rows_left(replace(job, pins={"reader": {}})) is None  # there is no todo
    assert "cannot estimate the number of rows: " in capsys.readouterr().out


def test_a_total_is_told_from_the_start() -> None:
    job = replace(job_of(spec()), todo_bytes=1_000)
    progress = Progress(job, Counts().snapshot, num_reads=4, likely_rows=500)
    totals = [
        progress.total_of({"parents": rows, "size": size, "tasks": tasks})
        for rows, size, tasks in [
            (0, 0, 0),
            (200, 100, 0),
            (600, 400, 0),
            (540, 600, 2),
            (900, 0, 4),
        ]
    ]
    assert totals == [500, 500, 600, 900, 900]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Thirty with a header and no row, then ten of 500 to 5,000 rows."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(40):
        rows = 0 if number < 30 else 500 * (number - 29)
        lines = "".join(f"{row},{row}.5\n" for row in range(10_000, 10_000 + rows))
        (folder / f"{number:02d}.csv").write_text(f"id,x\n{lines}")
    return folder


def planned_job(folder: Path, kind: str, settled: range | None = None, **source: Any) -> Job:
    """An attempt on files; of the largest some rows are settled."""
    ours = spec(
        source={"kind": kind, "path": str(folder), **source},
        steps=[],
        model={"kind": "python", "class": "math:sqrt"},
        sink={"kind": "parquet", "path": str(folder.parent / "out")},
        environment={"working_dir": str(folder)},
    )
    planned = make_plan(ours)
    if settled is not None:
        ids = (39 << 32) + np.arange(settled.start, settled.stop)
        rows = pa.table({ROW: ids})
        encoded = Encoded([], None, "")
        store(planned.storage, planned.run, planned.plan.digest, RowBatch(rows), lambda _: encoded)
    return new_job(planned, left_to_do(planned, tried=False), attempt=1)


def test_the_largest_shards_tell(files: Path) -> None:
    job = planned_job(files, "csv")
    assert job.todo_rows is None
    assert likely_rows_left(job) == pytest.approx(500 * 55, rel=0.05)


def test_what_is_settled_is_not_left(files: Path) -> None:
    job = planned_job(files, "csv", settled=range(4_000))
    assert likely_rows_left(job) == pytest.approx(500 * 55 - 4_000, rel=0.05)


def test_parts_of_a_file_are_counted_and_files_beside_them_likely(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    noise = np.random.default_rng(0).random(120_000)
    pq.write_table(pa.table({"x": noise}), folder / "a.parquet", row_group_size=10_000)
    for number in range(5):
        pq.write_table(pa.table({"x": noise[:8_000]}), folder / f"b{number}.parquet")
    job = planned_job(folder, "parquet", split_above_mib=0.2)
    assert job.num_shards > 7
    size = sum(each.stat().st_size for each in folder.iterdir())
    assert job.todo_bytes == pytest.approx(size, abs=job.num_shards)
    assert job.todo_rows is None
    assert likely_rows_left(job) == 120_000 + 5 * 8_000
    told: list[Report] = []
    read = sum(len(each.rows) for each in read_reported(job, 0, job.num_shards, told.append))
    assert read == sum(report.rows for report in told) == 120_000 + 5 * 8_000
    assert sum(report.size for report in told) == job.todo_bytes, "each part's own size"


def test_batches_that_another_job_has_cut_stay_as_they_are() -> None:
    job = job_of(spec(), 600, stages=AFTER_CUT)
    assert in_equal_shares(job, 600) == job


def test_files_have_as_many_rows_as_asked_for() -> None:
    job = job_of(spec(sink={"kind": "parquet", "path": "out", "rows_per_file": 32_000}))
    for rows, wanted in ((16_384, 2), (32_000, 1), (640, 50), (2_048, 16)):
        assert batches_per_write(with_rows_per_batch(job, rows)) == wanted
