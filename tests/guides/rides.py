"""Twelve Parquet files of the shape that the guide's taxi data has."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_year(folder: Path, rows: int = 500, rows_per_group: int = 200) -> list[Path]:
    """One file a month, of several row groups, with a few empty values; in the order of months."""
    folder.mkdir(parents=True)
    files = [folder / f"fe41422b_{month:06d}.parquet" for month in range(12)]
    for month, file in enumerate(files):
        pq.write_table(rides(month, rows), file, row_group_size=rows_per_group)
    return files


def rides(month: int, rows: int) -> pa.Table:
    """A month's rides."""
    random = np.random.default_rng(month)
    start = np.datetime64(f"2009-{month + 1:02d}-01T00:00:00", "us")
    pickup = start + random.integers(0, 28 * 86_400, rows).astype("timedelta64[s]")
    distance = random.exponential(3, rows)
    fare = 2.5 + 2.7 * distance * random.choice([1, 1, 1, 2], rows)
    return pa.table(
        {
            "vendor_id": random.choice(["CMT", "VTS", "DDS"], rows),
            "pickup_at": pickup,
            "dropoff_at": pickup + (distance * 240).astype("timedelta64[s]"),
            "passenger_count": some_missing(random, random.integers(1, 7, rows)),
            "trip_distance": distance.astype(np.float32),
            "pickup_longitude": random.normal(-73.98, 0.03, rows),
            "pickup_latitude": random.normal(40.75, 0.03, rows),
            "rate_code_id": pa.nulls(rows, pa.null()).cast(pa.int8()),
            "store_and_fwd_flag": random.choice(["Y", "N"], rows),
            "dropoff_longitude": random.normal(-73.98, 0.03, rows),
            "dropoff_latitude": random.normal(40.75, 0.03, rows),
            "payment_type": random.choice(["Cash", "Credit"], rows),
            "fare_amount": some_missing(random, fare.astype(np.float32)),
            "tip_amount": random.exponential(1, rows).astype(np.float32),
            "total_amount": (fare + 1).astype(np.float32),
        }
    )


def some_missing(random: np.random.Generator, values: np.ndarray) -> pa.Array:
    """Values, of which one in fifty is empty."""
    return pa.array(values, mask=random.random(len(values)) < 0.02)
