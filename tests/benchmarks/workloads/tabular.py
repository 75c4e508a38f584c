"""Fares of taxi rides by boosted trees: wide rows, of which a model reads a few numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.workloads.workload import Size, Target

KEY = "ride_id"
SIZES: dict[Size, int] = {"whole": 240_000_000, "small": 6_000_000, "tiny": 20_000}
TARGETS: dict[str, tuple[Target, ...]] = {
    "guide": (Target(8.0),),
    "plain": (Target(0.98), Target(0.95, "whole")),
    "daft": (Target(1.0, "whole"), Target(1 / 1.5, "whole", "small")),
    "daft_ray": (Target(1.0, "whole"), Target(1 / 1.5, "whole", "small")),
    "floor": (Target(0.9), Target(0.85, "whole")),
}
FEATURES = [
    "passenger_count",
    "trip_distance",
    "pickup_longitude",
    "pickup_latitude",
    "dropoff_longitude",
    "dropoff_latitude",
    "tip_amount",
    "surcharge",
]
ROWS_PER_FILE = 1_000_000
ROWS_PER_GROUP = 250_000
TREES, DEPTH = 20, 6


def make_weights(folder: Path, seed: int) -> None:
    """As many trees as the guide trains, of the default depth, from rides of their own."""
    import xgboost

    rides = rides_of(20_000, 0, seed + 1_000_000)
    seen = xgboost.DMatrix(
        rides.select(FEATURES).to_pandas(), rides["total_amount"].to_numpy(), nthread=1
    )
    parameters = {"max_depth": DEPTH, "nthread": 1}
    xgboost.train(parameters, seen, num_boost_round=TREES).save_model(folder / "model.ubj")


def make_inputs(folder: Path, size: int, seed: int) -> None:
    """Parquet files of a million rides each."""
    for number, first in enumerate(range(0, size, ROWS_PER_FILE)):
        rows = min(ROWS_PER_FILE, size - first)
        rides = rides_of(rows, first, seed * 1_000_003 + number)
        pq.write_table(rides, folder / f"{number:04d}.parquet", row_group_size=ROWS_PER_GROUP)


def rides_of(rows: int, first: int, seed: int) -> pa.Table:
    """Rides in the columns of the taxi data."""
    random = np.random.default_rng(seed)
    distance = random.exponential(3, rows).astype(np.float32)
    pickup = np.datetime64("2009-01-01", "us") + random.integers(0, 360 * 86_400, rows).astype(
        "timedelta64[s]"
    )
    fare = (2.5 + 2.7 * distance * random.choice([1, 1, 1, 2], rows)).astype(np.float32)
    where = random.standard_normal((4, rows), np.float32) * np.float32(0.03)
    tip, surcharge = (random.exponential(1, rows).astype(np.float32) for _ in range(2))
    names = {"vendor": ["CMT", "VTS", "DDS"], "flag": ["N", "Y"], "payment": ["Cash", "Credit"]}
    words = {
        name: pa.array(values).take(pa.array(random.integers(0, len(values), rows)))
        for name, values in names.items()
    }
    return pa.table(
        {
            "ride_id": np.arange(first, first + rows),
            "vendor_id": words["vendor"],
            "pickup_at": pickup,
            "dropoff_at": pickup + (distance * 240).astype("timedelta64[s]"),
            "passenger_count": random.integers(1, 7, rows),
            "trip_distance": distance,
            "pickup_longitude": where[0] - np.float32(73.98),
            "pickup_latitude": where[1] + np.float32(40.75),
            "rate_code_id": random.integers(1, 6, rows),
            "store_and_fwd_flag": words["flag"],
            "dropoff_longitude": where[2] - np.float32(73.98),
            "dropoff_latitude": where[3] + np.float32(40.75),
            "payment_type": words["payment"],
            "fare_amount": fare,
            "surcharge": surcharge,
            "mta_tax": np.full(rows, 0.5, np.float32),
            "tip_amount": tip,
            "tolls_amount": random.exponential(0.2, rows).astype(np.float32),
            "total_amount": fare + tip + surcharge,
        }
    )


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run: the columns that are needed, and nothing else set."""
    return {
        "name": "tabular",
        "source": {"kind": "parquet", "path": str(inputs), "columns": [KEY, *FEATURES]},
        "model": {"kind": "xgboost", "path": str(weights / "model.ubj"), "columns": FEATURES},
        "sink": {"kind": "parquet", "path": str(output), "keep_columns": [KEY]},
    }


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """Trees give the same float whatever batch a row is in."""
    np.testing.assert_array_equal(ours["prediction"].to_numpy(), theirs["prediction"].to_numpy())
