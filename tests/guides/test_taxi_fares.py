"""Functions and classes over twelve files of rides give what they give file by file, outside."""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from flows.testing import FinishedRun, RunSpec
from tasks.kinds.sources import ParquetSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.protocol.storage import FsspecStorage
from tests.guides.rides import write_year
from tests.guides.user_code.fares import FareCheck, even_passengers

SPEC = "deployments/specs/taxi-fares.yaml"
CODE = f"environment.working_dir={Path(__file__).parent / 'user_code'}"
COLUMNS = ["pickup_at", "trip_distance", "fare_amount"]


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_year(tmp_path_factory.mktemp("taxi") / "2009")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A folder in which every model that is loaded leaves a file."""
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def run(run_spec: RunSpec, year: list[Path], log: Path, *more: str, **how: Any) -> FinishedRun:
    where = f"source.path={year[0].parent}/*.parquet"
    return run_spec(SPEC, where, CODE, f"model.init.log={log}", *more, **how)


def check(done: FinishedRun, year: list[Path], log: Path) -> None:
    """Compare with the class, called with each file as a frame."""
    model = FareCheck(2.5, 2.7, str(log))
    frames = [pd.read_parquet(file, columns=COLUMNS) for file in year]
    expected = pd.concat([frame.join(model(frame)) for frame in frames])
    made = done.table.to_pandas()
    if len(year) == 12:  # replicas finish in any order
        keys = ["pickup_at", "trip_distance"]
        made, expected = made.sort_values(keys), expected.sort_values(keys)
    pd.testing.assert_frame_equal(
        made.reset_index(drop=True), expected.reset_index(drop=True), rtol=1e-6
    )


@pytest.mark.prefect
def test_a_class_is_made_once_and_sees_every_ride(
    run_spec: RunSpec, year: list[Path], log: Path
) -> None:
    done = run(run_spec, year, log)
    assert len(list(log.iterdir())) == 1
    assert done.report["rows"] == {"read": 6000, "written": 6000, "rejected": 0, "filtered": 0}
    check(done, year, log)


@pytest.mark.prefect
@pytest.mark.ray
def test_two_replicas_have_a_model_each(run_spec: RunSpec, year: list[Path], log: Path) -> None:
    two = ("resources.min_replicas=2", "resources.max_replicas=2", "model.init.replicas=2")
    done = run(run_spec, year, log, *two, "stages.read.rows_per_batch=250", ray=True)
    processes = [each.name.partition("-")[0] for each in log.iterdir()]
    assert len(processes) == len(set(processes)) == 2
    check(done, year, log)


@pytest.mark.prefect
@pytest.mark.parametrize(
    ("function", "init", "ray"),
    [
        ("even_passengers", "{divisor: 2}", False),
        ("load_model", "{}", False),
        pytest.param("even_passengers", "{divisor: 2}", True, marks=pytest.mark.ray),
    ],
)
def test_a_function_does_as_well(
    run_spec: RunSpec, year: list[Path], function: str, init: str, ray: bool
) -> None:
    done = run_spec(
        SPEC,
        f"source.path={year[3]}",
        "source.columns=[passenger_count]",
        CODE,
        f"model.class=fares:{function}",
        f"model.init={init}",
        ray=ray,
    )
    frame = pd.read_parquet(year[3], columns=["passenger_count"])
    assert done.table["score"].to_pylist() == even_passengers(frame)["score"].tolist()
    assert done.table["passenger_count"].null_count == frame["passenger_count"].isna().sum() > 0


@pytest.mark.prefect
def test_what_was_an_actor_is_handed_files(run_spec: RunSpec, tmp_path: Path) -> None:
    files = {str(tmp_path / f"rides-{rides}.parquet"): rides for rides in (1, 2, 3)}
    for file, rides in files.items():
        pd.DataFrame({"passenger_count": range(rides)}).to_parquet(file)
    source = f"source={{kind: binary, path: {tmp_path}/*.parquet}}"
    model = "model={kind: python, class: fares:PredictFiles}"
    done = run_spec(SPEC, source, CODE, model, "sink.keep_columns=[path]")
    assert done.table.to_pydict() == {"path": [*files], "predicted": [*files.values()]}


class CountingFile(io.FileIO):
    """A file that counts the bytes that are read from it."""

    num_bytes = 0

    def readinto(self, buffer: Any) -> int:
        read = super().readinto(buffer)
        CountingFile.num_bytes += read
        return read

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(-1 if size is None else size)
        CountingFile.num_bytes += len(data)
        return data


def test_columns_that_nobody_asked_for_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_year(tmp_path / "2009", rows=20_000, rows_per_group=10_000)[0]
    monkeypatch.setattr(FsspecStorage, "open", lambda _, path: CountingFile(path))
    source = ParquetSource(path=str(file), columns=COLUMNS)
    storage, (stat,) = list_inputs(source)
    pins = source.pin(storage, [stat])
    CountingFile.num_bytes = 0
    (shard,) = source.split(storage, stat)
    reads = list(source.read(storage, shard, pins))
    chunks = [
        pq.ParquetFile(file).metadata.row_group(group).column(at)
        for group in range(pq.ParquetFile(file).num_row_groups)
        for at in range(15)
    ]
    wanted = sum(c.total_compressed_size for c in chunks if c.path_in_schema in COLUMNS)
    assert sum(len(each) for each in reads if not isinstance(each, BadRow)) == 20_000
    assert wanted <= CountingFile.num_bytes < wanted * 1.2 < stat.size / 2
