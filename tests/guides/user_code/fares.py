"""What somebody brings who has read the guide on tasks and actors over Parquet files."""

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq


class FareCheck:
    """How much dearer a ride was than its distance explains."""

    def __init__(self, first_mile: float, per_mile: float, log: str, replicas: int = 1) -> None:
        """Note that a model was loaded, and wait until all replicas have theirs."""
        self.first_mile, self.per_mile = first_mile, per_mile
        (Path(log) / f"{os.getpid()}-{uuid.uuid4().hex}").touch()
        until = time.monotonic() + 240
        while len(list(Path(log).iterdir())) < replicas and time.monotonic() < until:
            time.sleep(0.05)

    def __call__(self, batch: pd.DataFrame) -> pd.DataFrame:
        explained = self.first_mile + self.per_mile * batch["trip_distance"].clip(lower=0)
        surplus = batch["fare_amount"] / explained - 1
        night = batch["pickup_at"].dt.hour >= 20
        return pd.DataFrame({"surplus": surplus, "is_odd": (surplus > 0.5) & ~night})


def even_passengers(batch: pd.DataFrame, divisor: int = 2) -> pd.DataFrame:
    return pd.DataFrame({"score": batch["passenger_count"] % divisor == 0})


def load_model() -> Callable[[pd.DataFrame], pd.DataFrame]:
    # A stand-in for a model.
    def model(batch: pd.DataFrame) -> pd.DataFrame:
        # Something to carry, so that copying the model would copy data.
        model.payload = np.zeros(100_000)  # type: ignore[attr-defined]
        return pd.DataFrame({"score": batch["passenger_count"] % 2 == 0})

    return model


class BatchPredictor:
    """What was an actor's class: it is handed the model, and reads a file by itself."""

    def __init__(self, model: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        self.model = model

    def predict(self, shard_path: str) -> int:
        frame = pq.read_table(shard_path).to_pandas()
        result = self.model(frame)
        return len(result)


class PredictFiles(BatchPredictor):
    """The same, called with paths, one of them after the other."""

    def __init__(self) -> None:
        super().__init__(load_model())

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[int]]:
        return {"predicted": [self.predict(path) for path in batch["path"]]}
