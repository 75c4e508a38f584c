"""Plain Ray Data, as well as we can: filtered and repeated in Arrow, trees in place."""

import pyarrow as pa
import pyarrow.compute as pc

from tests.benchmarks.plain.tabular import Trees, predicted, read
from tests.benchmarks.script import Arguments, arguments
from tests.benchmarks.workloads.offers import COLUMNS, COMPANY, KEY, LEAST_TIP, TIP, offers

GRID = {
    "batch_size": [131_072, 524_288],
    "block_mib": [32, 128],
    "pool": [1, 2],
    "threads": [1, 2],
}


def left(rides: pa.Table) -> pa.Table:
    """Offers for those of the rides that are left."""
    return offers(rides.filter(pc.greater(rides[TIP], LEAST_TIP)))


class Fares(Trees):
    """The model, which hands the company on."""

    KEPT = (KEY, COMPANY)


def main(given: Arguments) -> None:
    """Read what is needed, filter, repeat, predict, write by company."""
    rides = read(given, COLUMNS)
    many = rides.map_batches(left, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)
    predicted(many, Fares, given).write_parquet(str(given.output), partition_cols=[COMPANY])
    given.finish()


if __name__ == "__main__":
    main(arguments(batch_size=131_072, block_mib=128, pool=1, threads=1))
