"""Plain Ray Data, as well as we can: filtered and repeated in Arrow, trees in place."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.benchmarks.plain.tabular import Trees
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.offers import (
    COLUMNS,
    COMPANY,
    KEY,
    LEAST_TIP,
    OFFERED,
    PASSENGERS,
    RIDE,
    TIP,
)

GRID = {
    "batch_size": [131_072, 524_288],
    "block_mib": [32, 128],
    "pool": [1, 2],
    "threads": [1, 2],
}


def offers(rides: pa.Table) -> pa.Table:
    """Those of the rides that are left."""
    left = rides.filter(pc.greater(rides[TIP], LEAST_TIP))
    many = left.take(np.repeat(np.arange(len(left)), len(OFFERED)))
    numbers = np.tile(np.arange(len(OFFERED)), len(left))
    ids = many[RIDE].to_numpy() * len(OFFERED) + numbers
    passengers = pa.array(np.asarray(OFFERED)[numbers])
    many = many.set_column(many.column_names.index(PASSENGERS), PASSENGERS, passengers)
    return many.drop_columns([RIDE]).append_column(KEY, pa.array(ids))


class Fares(Trees):
    """The model, which hands the company on."""

    KEPT = (KEY, COMPANY)


def main(given: Arguments) -> None:
    """Read what is needed, filter, repeat, predict, write by company."""
    import ray

    knobs = given.knobs
    ray.init(include_dashboard=False, logging_level="ERROR")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = knobs["block_mib"] << 20
    rides = ray.data.read_parquet(str(given.inputs), columns=COLUMNS)
    several = partial(rides.map_batches, batch_format="pyarrow", zero_copy_batch=True)
    predictions = several(offers, batch_size=None).map_batches(
        Fares,
        compute=ray.data.ActorPoolStrategy(size=knobs["pool"]),
        batch_format="pyarrow",
        batch_size=knobs["batch_size"],
        zero_copy_batch=True,
        # Threads are what the cores are shared by; an actor that asks for all lets nothing read.
        num_cpus=0.5,
        fn_constructor_args=(str(given.weights), knobs["threads"], str(given.clocks)),
    )
    predictions.write_parquet(str(given.output), partition_cols=[COMPANY])
    given.finish()


if __name__ == "__main__":
    main(arguments(batch_size=131_072, block_mib=128, pool=1, threads=1))
