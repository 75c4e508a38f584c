"""From `run` to the first predicted row, files in memory: what takes it.

Prefect's server is up, but where it is said that the command starts one.

Parts are given in the CPU seconds of their own process as well: those do not depend on what else
the machine does.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image
from prefect.settings import PREFECT_API_URL

from flows.server_for_tests import database_in, server_for_tests
from flows.small_ray import FOR_CLIENTS, small_ray
from tests.benchmarks.random_models import Sizes, save_vit

ROUNDS, IMAGES = 3, 100
HOOKS = Path(__file__).parent / "hooks"
CODE = Path(__file__).parents[2]
TARGETS = {"local": 12.0, "warm cluster": 6.0, "inline": 4.0, "inline, own server": None}
PARTS = {
    "ours: imports, spec": ("process begins", "import prefect begins"),
    "Prefect: imports": ("import prefect begins", "import flows.batch_inference ends"),
    "Prefect: its own server": ("start_own_server begins", "start_own_server ends"),
    "Prefect: flow start": ("start_own_server ends", "carry_out begins"),
    "plan": ("carry_out begins", "next_attempt begins"),
    "driver: Python, ours": ("process begins", "connect begins"),
    "driver: ray.init": ("connect begins", "connect ends"),
    "driver: Ray Data": ("import ray.data begins", "import ray.data ends"),
    "driver: checks": ("configure begins", "run_pipeline begins"),
    "replica: Python, ray, ours": ("process begins", "infer_stage begins"),
    "model: torch, transformers, weights": ("infer_stage begins", "infer_stage ends"),
}


@dataclass(frozen=True)
class Mark:
    """A moment of a process."""

    at: float
    cpu: float
    pid: int
    what: str


def measure(folder: Path) -> list[str]:
    """Seconds to the first row on each kind of cluster, and their parts."""
    source = make_input(folder)
    save_vit(folder / "vit", Sizes.tiny())
    lines = [
        f"{IMAGES} images, a ViT of few weights, median of {ROUNDS}; wall seconds from the command "
        "to the model's first row, then each part: wall seconds (CPU seconds of its process).",
    ]
    with server_for_tests(database_in(folder)):
        api = str(PREFECT_API_URL.value())
        for name, target in TARGETS.items():
            with small_ray() if name == "warm cluster" else nullcontext(None) as address:
                cluster = {"kind": "inline" if name.startswith("inline") else "local"}
                cluster |= {"address": address} if address else {}
                named = "" if name.endswith("own server") else api
                runs = [run(folder, source, named, cluster, n) for n in range(ROUNDS + 1)]
            lines += ["", *table(name, target, runs[1:])]  # the first one fills the disk cache
    return lines


def make_input(folder: Path) -> Path:
    """Photos of noise."""
    source = folder / "images"
    source.mkdir()
    random = np.random.default_rng(0)
    for number in range(IMAGES):
        pixels = random.integers(0, 256, (48, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((500, 375)).save(source / f"{number:04d}.jpg")
    return source


def run(
    folder: Path, source: Path, api: str, cluster: dict[str, Any], number: int
) -> tuple[float, list[Mark]]:
    """One whole run; seconds to the first row, and the marks of its processes.

    Args:
        folder: for what it needs and leaves.
        source: of the images.
        api: address of Prefect's server; empty: the command starts one.
        cluster: where it runs.
        number: of the run.
    """
    name = f"{cluster['kind']}{'-warm' if 'address' in cluster else ''}{'' if api else '-own'}"
    name += f"-{number}"
    file, marks = folder / f"{name}.yaml", folder / f"{name}.marks"
    asked = spec(source, folder / name, folder / "vit", cluster)
    # Of a Ray that runs, workers have what the spec says, and nothing of the driver's.
    asked["environment"] = {"env_vars": {"STARTUP_MARKS": str(marks)}}
    file.write_text(yaml.safe_dump(asked))
    environment = {
        **os.environ,
        "PREFECT_API_URL": api,
        "PREFECT_HOME": str(folder / "prefect"),
        "STARTUP_MARKS": str(marks),
        "PYTHONPATH": f"{HOOKS}{os.pathsep}{CODE}",
        **(FOR_CLIENTS if "address" in cluster else {}),
    }
    command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(file), "--json"]
    begun = time.time()
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["rows"]["written"] == IMAGES, report["rows"]
    found = [line.split(" ", 3) for line in marks.read_text().splitlines()]
    read = [Mark(float(at), float(cpu), int(pid), what) for at, cpu, pid, what in found]
    flow = next(each.at for each in read if each.what == "carry_out begins")
    return flow - begun + report["seconds"]["startup"], read


def spec(source: Path, output: Path, model: Path, cluster: dict[str, Any]) -> dict[str, Any]:
    """The job."""
    return {
        "source": {"kind": "images", "path": str(source)},
        "model": {
            "kind": "huggingface",
            "task": "image-classification",
            "name_or_path": str(model),
        },
        "sink": {"kind": "parquet", "path": str(output)},
        "cluster": cluster,
    }


def table(name: str, target: float | None, runs: list[tuple[float, list[Mark]]]) -> list[str]:
    """Medians of one kind of cluster."""
    total = statistics.median(seconds for seconds, _ in runs)
    aim = "" if target is None else f" (target {target:g} s)"
    lines = [f"**{name}: {total:.1f} s**{aim}", ""]
    lines += ["| part | wall s (CPU s) |", "| --- | --- |"]
    for part, (begin, end) in PARTS.items():
        spans = [span for _, marks in runs if (span := span_of(marks, begin, end))]
        if spans:
            wall, cpu = (statistics.median(each) for each in zip(*spans, strict=True))
            lines.append(f"| {part} | {wall:.1f} ({cpu:.1f}) |")
    return lines


def span_of(marks: list[Mark], begin: str, end: str) -> tuple[float, float] | None:
    """Wall and CPU seconds between two marks of the process that has the second one."""
    last = first_of(marks, lambda each: each.what == end)
    if last is None:
        return None
    first = first_of(marks, lambda each: each.what == begin and each.pid == last.pid)
    return (last.at - first.at, last.cpu - first.cpu) if first and first.at <= last.at else None


def first_of(marks: list[Mark], wanted: Callable[[Mark], bool]) -> Mark | None:
    """The first such mark; None where there is none."""
    return next(filter(wanted, marks), None)
