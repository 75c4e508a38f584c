"""The output folder holds rows and nothing else, whoever reads it."""

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds

from tasks.plan import make_plan
from tasks.publish import publish_planned
from tasks.run import left_to_do, next_attempt
from tests.flows.conftest import spec_of


def test_every_reader_sees_the_same_rows(numbers: Path) -> None:
    planned = make_plan(spec_of(numbers))
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    attempt.ensure_started()
    while attempt.look().result is None:
        attempt.stopped.wait(0.05)
    publish_planned(planned)
    folder = planned.output.path
    expected = (1000, sum(2.0 * each for each in range(1000)))
    parquet = f"select count(*), sum(doubled) from read_parquet('{folder}/*.parquet')"
    assert duckdb.sql(parquet).fetchall() == [expected]
    frame = pl.read_parquet(folder)
    assert (len(frame), frame["doubled"].sum()) == expected
    pandas = pd.read_parquet(folder)
    assert (len(pandas), pandas["doubled"].sum()) == expected
    assert ds.dataset(folder).count_rows() == 1000
    assert sorted(path.name for path in Path(folder).iterdir())[0] == "_SUCCESS"
