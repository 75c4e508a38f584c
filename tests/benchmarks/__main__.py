"""Measures what docs/measured.md claims: `make bench` for all, `make bench ROW=memory` for one.

Rows that run us beside another way, such as `guide_tabular`, take options:
`make bench ROW="guide_tabular --resume rounds.jsonl"` goes on where it was interrupted,
`--size tiny` tries it, `--cluster inline` has ours without Ray; the row `tabular` runs all ways in
each round. Rows of a GPU, such as `floor_gpu_images`, run where they are named.
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.benchmarks import (
    cores,
    following,
    growth,
    incremental,
    judging,
    memory,
    months,
    numbers,
    objects,
    orchestration,
    planning,
    publishing,
    runtimes,
    scale,
    searching,
    shared_weights,
    side_by_side,
    startup,
    verdict,
    year,
)
from tests.benchmarks.contenders import OURS, workload_named
from tests.benchmarks.side_by_side import Options

ROWS: dict[str, Callable[[Path], list[str]]] = {
    "orchestration": orchestration.measure,
    "memory": memory.measure,
    "planning": planning.measure,
    "scale": scale.measure,
    "incremental": incremental.measure,
    "months": months.measure,
    "year": year.measure,
    "publishing": publishing.measure,
    "objects": objects.measure,
    "following": following.measure,
    "judging": judging.measure,
    "search": searching.measure,
    "shared_weights": shared_weights.measure,
    "startup": startup.measure,
    "verdict": verdict.measure,
    "runtimes": runtimes.measure,
    "numbers": numbers.measure,
    "tenfold": growth.tenfold,
    "replicas": growth.replicas,
    "cores_images": partial(cores.measure, workload="images"),
    "cores_generation": partial(cores.measure, workload="generation"),
    "cores_texts": partial(cores.measure, workload="texts"),
}
WORKLOADS = (
    *("tabular", "rides", "offers", "texts", "generation", "images"),
    *("cnn", "cnn_openvino", "image_embedding"),
)
ON_GPU = ("gpu_images", "gpu_texts", "gpu_generation")
"""Workloads that are asked for by name, and want a machine with a GPU."""
RESULTS = Path(__file__).parent / "RESULTS.md"


def main(names: list[str], options: Options) -> None:
    """Run rows and put their figures into RESULTS.md, each under its own heading."""
    rows = ROWS | rows_side_by_side(options, (*WORKLOADS, *ON_GPU))
    for name in names or [*ROWS, *rows_side_by_side(options, WORKLOADS, alone=True)]:
        with tempfile.TemporaryDirectory(prefix="b-") as folder:
            lines = rows[name](Path(folder))
        print("\n".join(lines), flush=True)
        if options.size != "tiny":
            save(name if name in ROWS else f"{name}{options.title}", lines)


def rows_side_by_side(
    options: Options, workloads: Sequence[str], alone: bool = False
) -> dict[str, Callable[[Path], list[str]]]:
    """A row for each workload and each other way of doing it, and one for all ways of each.

    Ours without Ray is one of them.

    Args:
        options: of each row.
        workloads: their modules' names.
        alone: leave out the rows of all ways.
    """
    rows: dict[str, Callable[[Path], list[str]]] = {}
    for workload in workloads:
        ways = [*workload_named(workload).TARGETS]
        ways += ["inline"] if options.ours != "inline" else []
        if not alone:
            rows[workload] = partial(side_by_side.row, ways, workload, options=options)
        for way in ways:
            one = partial(side_by_side.row, [way], workload, options=options)
            rows[f"{way}_{workload}"] = one
    return rows


def save(name: str, lines: list[str]) -> None:
    """Replace one section of RESULTS.md."""
    sections = read_sections()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    sections[name] = [f"{datetime.now(UTC):%Y-%m-%d}, {machine}.", "", *lines]
    text = "# Results\n\nPrinted by `make bench`; compare ratios, the machines are noisy.\n"
    for title, body in sorted(sections.items()):
        text += f"\n## {title}\n\n" + "\n".join(body).strip() + "\n"
    RESULTS.write_text(text)


def read_sections() -> dict[str, list[str]]:
    """What earlier runs measured, by heading."""
    sections: dict[str, list[str]] = {}
    if not RESULTS.exists():
        return sections
    for block in RESULTS.read_text().split("\n## ")[1:]:
        title, _, body = block.partition("\n")
        sections[title.strip()] = body.strip().splitlines()
    return sections


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--size", choices=["whole", "small", "tiny"], default="whole")
    parser.add_argument("--cluster", choices=OURS)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--resume", type=Path)
    given = parser.parse_args()
    alone = [each for each in given.names if each in ROWS]
    if alone and (given.size != "whole" or given.cluster or given.rounds or given.resume):
        parser.error(f"{', '.join(alone)}: takes no options; only rows side by side do")
    main(given.names, Options(given.size, given.rounds, given.resume, given.cluster))
