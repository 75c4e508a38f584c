"""Who runs a workload, and with which command."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.benchmarks.workloads.workload import Workload

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DAFT = "daft==0.7.26"
OURS = ("local", "inline")
"""Ours, by its kind of cluster."""


@dataclass(frozen=True)
class Job:
    """One run that is to be made."""

    workload: Workload
    inputs: Path
    weights: Path
    output: Path

    @property
    def arguments(self) -> list[str]:
        """For a script."""
        places = {"inputs": self.inputs, "weights": self.weights, "output": self.output}
        return [f"--{name}={path}" for name, path in places.items()]


@dataclass(frozen=True)
class Contender:
    """A way to do a workload."""

    name: str
    command: Callable[[Job], list[str]]
    is_ours: bool = False


def ours(cluster: str, name: str | None = None, **changes: Any) -> Contender:
    """The product: `batch-inference run` of the workload's spec.

    Args:
        cluster: its kind.
        name: where several of ours are compared.
        changes: to the spec.
    """

    def command(job: Job) -> list[str]:
        spec = {
            **job.workload.spec(job.inputs, job.weights, job.output),
            "cluster": {"kind": cluster},
            **changes,
            "environment": {"working_dir": str(ROOT)},
        }
        file = job.output.with_suffix(".yaml")
        file.write_text(yaml.safe_dump(spec))
        return [str(Path(sys.executable).with_name("batch-inference")), "run", str(file), "--json"]

    return Contender(name or cluster, command, is_ours=True)


def script(name: str, workload: str, **knobs: int) -> Contender:
    """A script of one of the folders here.

    Args:
        name: the folder; `daft_ray` is Daft's with `--ray 1`.
        workload: the module in it.
        knobs: its options.
    """
    family, _, on_ray = name.partition("_")
    folder = "guides" if family == "guide" else family
    knobs = {**knobs, **({"ray": 1} if on_ray else {})}
    options = [f"--{knob.replace('_', '-')}={value}" for knob, value in knobs.items()]

    def command(job: Job) -> list[str]:
        module = f"tests.benchmarks.{folder}.{workload}"
        return [sys.executable, "-m", module, *job.arguments, *options]

    return Contender(name, command)


def contender(name: str, workload: str) -> Contender:
    """Who bears this name; plain Ray Data with the knobs that were the best of its grid."""
    if name in OURS:
        return ours(name)
    return script(name, workload, **(best_knobs(workload) if name == "plain" else {}))


def best_knobs(workload: str) -> dict[str, int]:
    """Those with the shortest steady state in the grid; the script's own where none was run."""
    file = grid_file(workload)
    if not file.exists():
        return {}
    tried = json.loads(file.read_text())["tried"]
    best: dict[str, int] = min(tried, key=lambda each: each["steady"])["knobs"]
    return best


def grid_file(workload: str) -> Path:
    """Where the grid of a workload's plain script lies."""
    return HERE / "plain" / f"grid_{workload}.json"


def workload_named(name: str) -> Workload:
    """The module of a workload."""
    found: Workload = importlib.import_module(f"tests.benchmarks.workloads.{name}")
    return found


def install_daft(folder: Path) -> str:
    """Put Daft into a folder of its own, to be found there.

    Its pins exclude the pyarrow of ours, with which it works, so pip would never install both.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, DAFT], check=True)
    return str(folder)
