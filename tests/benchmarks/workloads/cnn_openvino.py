"""The workload of the CNN, ours compiled by OpenVINO."""

from pathlib import Path
from typing import Any

from tests.benchmarks.workloads import cnn
from tests.benchmarks.workloads.workload import Target

KEY, SIZES = cnn.KEY, cnn.SIZES
TARGETS: dict[str, tuple[Target, ...]] = {"guide": (Target(2.5),)}
make_weights, make_inputs, compare = cnn.make_weights, cnn.make_inputs, cnn.compare


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run, with the runtime set."""
    eager = cnn.spec(inputs, weights, output)
    return {**eager, "name": "cnn-openvino", "model": {**eager["model"], "runtime": "openvino"}}
