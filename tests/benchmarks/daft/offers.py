"""Daft, native or on Ray: a filter, a list that is exploded, the same trees."""

from tests.benchmarks.daft.tabular import trees_of
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
from tests.benchmarks.workloads.tabular import FEATURES


def main(given: Arguments) -> None:
    """Read what is needed, filter, repeat, predict, write by company."""
    import daft

    trees = trees_of(given)
    rides = daft.read_parquet(f"{given.inputs}/*.parquet").select(*COLUMNS)
    left = rides.where(daft.col(TIP) > LEAST_TIP)
    lists = {"number": daft.lit([*range(len(OFFERED))]), PASSENGERS: daft.lit([*OFFERED])}
    many = left.with_columns(lists).explode(*lists)
    offers = many.with_column(KEY, daft.col(RIDE) * len(OFFERED) + daft.col("number"))
    made = trees.predict(*[daft.col(name) for name in FEATURES])
    fares = offers.select(KEY, COMPANY, made.alias("prediction"))
    fares.write_parquet(str(given.output), partition_cols=[COMPANY])
    given.finish()


if __name__ == "__main__":
    main(arguments(ray=0, pool=1, threads=2))
