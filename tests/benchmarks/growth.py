"""What more rows cost, and what more replicas bring, in the steady state of text embedding."""

from pathlib import Path

import numpy as np

from tasks.machine import cores
from tests.benchmarks.contenders import Job, ours, workload_named
from tests.benchmarks.ratios import Ratio
from tests.benchmarks.side_by_side import ROUNDS, Run, measure, one_run, surroundings

WORKLOAD = "texts"
MIB = 1 << 20
TIMES = 10
MOST_TIME, MOST_MEMORY = 10.2, 1.2
"""What ten times the rows may cost."""
TWO_OVER_ONE = 1.9
"""How much faster two replicas are to be, where there are cores for four."""


def tenfold(folder: Path) -> list[str]:
    """A minute's rows, and ten times as many: once, since it takes twelve minutes.

    Of a tenth, which take seconds, batches are smaller, and memory is not filled yet.
    """
    module = workload_named(WORKLOAD)
    sizes = (module.SIZES["whole"], module.SIZES["whole"] * TIMES)
    with surroundings([ours("local")], folder) as environment:
        few, many = (one_size(folder / str(size), size, environment) for size in sizes)
    print(few, many, flush=True)
    return [
        f"{WORKLOAD}, {sizes[0]:,} and {sizes[1]:,} rows on `cluster: local`, once.",
        "",
        "| what | few | many | many over few | target | |",
        "| --- | --- | --- | --- | --- | --- |",
        compared("steady, s", few.steady, many.steady, MOST_TIME),
        compared("private memory at most, MiB", few.memory / MIB, many.memory / MIB, MOST_MEMORY),
    ]


def one_size(place: Path, size: int, environment: dict[str, str]) -> Run:
    """Ours over so many rows."""
    module, inputs, weights = workload_named(WORKLOAD), place / "inputs", place / "weights"
    inputs.mkdir(parents=True)
    weights.mkdir()
    module.make_weights(weights, 0)
    module.make_inputs(inputs, size, 0)
    return one_run(ours("local"), Job(module, inputs, weights, place / "out"), environment)


def compared(what: str, few: float, many: float, most: float) -> str:
    """A line of few and many."""
    verdict = "reached" if many / few <= most else "missed"
    return f"| {what} | {few:,.1f} | {many:,.1f} | {many / few:.2f} | ≤ {most:g} | {verdict} |"


def replicas(folder: Path) -> list[str]:
    """One replica of one thread, and two of them."""
    contenders = [
        ours("local", name, resources={"num_cpus": 1, "min_replicas": n, "max_replicas": n})
        for n, name in enumerate(("one", "two"), start=1)
    ]
    rounds = measure(WORKLOAD, contenders, ROUNDS, "whole", folder)
    one, two = ([each.runs[name].steady for each in rounds] for name in ("one", "two"))
    ratio = Ratio(tuple(np.divide(one, two)))
    is_judged = cores() >= 4
    verdict = ratio.verdict(TWO_OVER_ONE) if is_judged else "not judged on fewer than four cores"
    return [
        f"{WORKLOAD}, {rounds[0].runs['one'].rows:,} rows on `cluster: local`, replicas of one "
        f"thread, {ROUNDS} alternating rounds; medians, and one over two: median (lowest to "
        "highest).",
        "",
        "| what | one | two | ratio | target | |",
        "| --- | --- | --- | --- | --- | --- |",
        f"| steady, s | {np.median(one):,.1f} | {np.median(two):,.1f} | {ratio} | "
        f"≥ {TWO_OVER_ONE:g} | {verdict} |",
    ]
