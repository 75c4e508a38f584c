"""Inputs by day, and a spec that reads the day before the scheduled time."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

DAY = "{scheduled:%Y-%m-%d}"
OTHER = {"kind": "python", "class": "predictors:Double", "init": {"bad": -1.0}}
"""Another model with the same predictions."""


def put(folder: Path, day: str, name: str = "a", first: int | None = None) -> Path:
    """An input of ten rows; its ids begin with the day of the month, if nothing else is said."""
    begin = int(day[-2:]) * 100 if first is None else first
    ids = list(range(begin, begin + 10))
    file = folder / "in" / day / f"{name}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": ids, "x": [float(each) for each in ids]}), file)
    return file


def daily_spec(folder: Path, out: str = f"out/{DAY}", **changes: Any) -> BatchInferenceSpec:
    """Reads a day's folder; publishes to a folder of the day, or to another."""
    source = {"kind": "parquet", "path": str(folder / "in" / DAY)}
    sink = {"kind": "parquet", "path": str(folder / out)}
    return spec_of(folder, **{"source": source, "sink": sink, **changes})


def ids_in(spec: BatchInferenceSpec, out: Path) -> list[int]:
    """Ids of the rows published in a folder."""
    sink = spec.sink.model_copy(update={"path": str(out)})
    return [row["id"] for row in published(spec.model_copy(update={"sink": sink}))]
