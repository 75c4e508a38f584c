"""Runs the grid of a plain script: `python -m tests.benchmarks.tune WORKLOAD`.

What it finds lies beside the script; the harness takes the best of it. Pools with more threads than
there are cores are left out.
"""

import argparse
import importlib
import itertools
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.contenders import ROOT, Job, grid_file, script, workload_named
from tests.benchmarks.side_by_side import one_run

SHARE = 4
"""Of a whole run's inputs one in so many: only steady states are compared."""


def tune(workload: str, size: int, folder: Path) -> list[dict[str, Any]]:
    """Run the script with each combination of its knobs; the one of the shortest steady first."""
    module = workload_named(workload)
    knobs: dict[str, list[int]] = importlib.import_module(f"tests.benchmarks.plain.{workload}").GRID
    weights, inputs = folder / "weights", folder / "inputs"
    weights.mkdir()
    inputs.mkdir()
    module.make_weights(weights, 0)
    module.make_inputs(inputs, size, 0)
    tried = []
    for number, values in enumerate(itertools.product(*knobs.values())):
        chosen = dict(zip(knobs, values, strict=True))
        if chosen["pool"] * chosen["threads"] > (os.cpu_count() or 1):
            continue
        job = Job(module, inputs, weights, folder / f"output-{number}")
        made = one_run(script("plain", workload, **chosen), job, {"PYTHONPATH": str(ROOT)})
        figures = {"steady": made.steady, "whole": made.whole, "cpu": made.cpu}
        tried.append({"knobs": chosen, **{k: round(v, 2) for k, v in figures.items()}})
        print(json.dumps(tried[-1]), flush=True)
    return sorted(tried, key=lambda each: each["steady"])


def main() -> None:
    """Run a grid and store it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    workload = parser.parse_args().workload
    size = workload_named(workload).SIZES["whole"] // SHARE
    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        tried = tune(workload, size, Path(folder))
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    lines = ",\n    ".join(json.dumps(each) for each in tried)
    head = f'"machine": "{machine}", "inputs": {size}'
    grid_file(workload).write_text(f'{{{head}, "tried": [\n    {lines}\n]}}\n')


if __name__ == "__main__":
    main()
