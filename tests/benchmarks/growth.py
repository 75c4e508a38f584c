"""What more rows cost, and what more replicas bring, in the steady state of text embedding."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tasks.machine import cores
from tests.benchmarks.contenders import Job, ours, workload_named
from tests.benchmarks.ratios import Ratio
from tests.benchmarks.side_by_side import ROUNDS, Run, measure, one_run, surroundings

WORKLOAD = "texts"
TIMES = 10
MOST_TIME, MOST_MEMORY = 10.2, 1.2
"""What ten times the rows may cost."""
LONG_ROUNDS = 1
"""Each takes twelve minutes."""
TWO_OVER_ONE = 1.9
"""How much faster two replicas are to be, where there are cores for four."""


def tenfold(folder: Path) -> list[str]:
    """A minute's rows, and ten times as many.

    Of a tenth, which take seconds, batches are smaller, and memory is not filled yet.
    """
    module = workload_named(WORKLOAD)
    sizes = (module.SIZES["whole"], module.SIZES["whole"] * TIMES)
    rounds: list[tuple[Run, Run]] = []
    with surroundings([ours("local")], folder) as environment:
        for seed in range(LONG_ROUNDS):
            place = folder / str(seed)
            few, many = (one_size(place / str(size), size, seed, environment) for size in sizes)
            rounds.append((few, many))
            print(few, many, flush=True)
            shutil.rmtree(place)
    return [
        f"{WORKLOAD}, {sizes[0]:,} and {sizes[1]:,} rows on `cluster: local`; rounds: "
        f"{LONG_ROUNDS}; "
        "medians, and many over few: median (lowest to highest).",
        "",
        "| what | few | many | ratio | target | |",
        "| --- | --- | --- | --- | --- | --- |",
        compared("steady, s", [(few.steady, many.steady) for few, many in rounds], MOST_TIME),
        compared(
            "private memory at most, MiB",
            [(few.memory / (1 << 20), many.memory / (1 << 20)) for few, many in rounds],
            MOST_MEMORY,
        ),
    ]


def one_size(place: Path, size: int, seed: int, environment: dict[str, str]) -> Run:
    """Ours over so many rows."""
    module, inputs, weights = workload_named(WORKLOAD), place / "inputs", place / "weights"
    inputs.mkdir(parents=True)
    weights.mkdir()
    module.make_weights(weights, seed)
    module.make_inputs(inputs, size, seed)
    return one_run(ours("local"), Job(module, inputs, weights, place / "out"), environment)


def compared(what: str, pairs: Sequence[tuple[float, float]], most: float) -> str:
    """A line of few and many."""
    ratio = Ratio(tuple(many / few for few, many in pairs))
    few, many = np.median(pairs, axis=0)
    verdict = "reached" if ratio.median <= most else "missed"
    return f"| {what} | {few:,.1f} | {many:,.1f} | {ratio} | ≤ {most:g} | {verdict} |"


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
