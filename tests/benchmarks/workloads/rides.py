"""Taxi rides of an even number of passengers: wide rows, of which a function reads one number."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.workloads import tabular
from tests.benchmarks.workloads.workload import Target

if TYPE_CHECKING:
    import pandas as pd

KEY = tabular.KEY
SIZES = tabular.SIZES
TARGETS = {"guide": (Target(8.0),)}
PASSENGERS = "passenger_count"
make_inputs = tabular.make_inputs


def load_model() -> Any:
    """The guide's model: it has no weights, so nothing is measured but what brings rows to it."""
    import pandas as pd

    def model(batch: "pd.DataFrame") -> "pd.DataFrame":
        return pd.DataFrame({"score": batch[PASSENGERS] % 2 == 0})

    return model


def make_weights(folder: Path, seed: int) -> None:
    """None: see `load_model`."""


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run: the columns that are needed, and nothing else set."""
    return {
        "name": "rides",
        "source": {"kind": "parquet", "path": str(inputs), "columns": [KEY, PASSENGERS]},
        "model": {
            "kind": "python",
            "class": f"{__name__}:{load_model.__name__}",
            "batch_format": "pandas",
        },
        "sink": {"kind": "parquet", "path": str(output), "keep_columns": [KEY]},
    }


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """The same answers."""
    np.testing.assert_array_equal(ours["score"].to_numpy(), theirs["score"].to_numpy())
