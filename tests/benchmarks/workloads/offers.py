"""Fares of three offers for each of the taxi rides that a filter leaves, by company."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.workloads import tabular
from tests.benchmarks.workloads.tabular import FEATURES
from tests.benchmarks.workloads.workload import Size, Target

KEY = "offer_id"
SIZES: dict[Size, int] = {"whole": 120_000_000, "small": 3_000_000, "tiny": 20_000}
TARGETS: dict[str, tuple[Target, ...]] = {
    "plain": (Target(0.98), Target(0.95, "whole")),
    "daft": (Target(1.0, "whole"), Target(1 / 1.5, "whole", "small")),
    "daft_ray": (Target(1.0, "whole"), Target(1 / 1.5, "whole", "small")),
}
RIDE, COMPANY, PASSENGERS, TIP = tabular.KEY, "vendor_id", "passenger_count", "tip_amount"
COLUMNS = [RIDE, COMPANY, *FEATURES]
LEAST_TIP = 0.7
"""Half of the rides have a larger one, here and there."""
OFFERED = (1, 2, 4)
"""Passengers that a fare is asked for."""
make_weights = tabular.make_weights
make_inputs = tabular.make_inputs


def offers(rides: pa.Table) -> pa.Table:
    """Each ride as often as there are offers, one below the other; whatever else it has too."""
    many = rides.take(np.repeat(np.arange(len(rides)), len(OFFERED)))
    numbers = np.tile(np.arange(len(OFFERED)), len(rides))
    ids = pa.array(many[RIDE].to_numpy() * len(OFFERED) + numbers)
    passengers = pa.array(np.asarray(OFFERED)[numbers])
    many = many.set_column(many.column_names.index(PASSENGERS), PASSENGERS, passengers)
    return many.drop_columns([RIDE]).append_column(KEY, ids)


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run: the columns that are needed, and nothing else set."""
    return {
        "name": "offers",
        "source": {"kind": "parquet", "path": str(inputs), "columns": COLUMNS},
        "steps": [
            {"kind": "filter", "expression": f"{TIP} > {LEAST_TIP}"},
            {
                "kind": "python",
                "function": f"{__name__}:{offers.__name__}",
                "batch_format": "pyarrow",
                "with_row_ids": True,
            },
        ],
        "model": {"kind": "xgboost", "path": str(weights / "model.ubj"), "columns": FEATURES},
        "sink": {
            "kind": "parquet",
            "path": str(output),
            "keep_columns": [KEY, COMPANY],
            "partition_by": [COMPANY],
        },
    }


def compare(ours: pa.Table, theirs: pa.Table) -> None:
    """The same fares of the same companies."""
    tabular.compare(ours, theirs)
    assert ours[COMPANY].cast(pa.string()).equals(theirs[COMPANY].cast(pa.string()))
