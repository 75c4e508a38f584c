"""The verdict on the bottleneck, and whether its advice gives what it promises.

Four jobs, each bound by another stage, all by sleeping; each is run as it is, and again with the
setting that its report suggests.
"""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.server_for_tests import database_in, server_for_tests
from flows.small_ray import FOR_CLIENTS, small_ray
from tasks.reporting.verdict import sentence
from tasks.spec_file import complete_spec

BATCHES, ROWS = 60, 10
SLOW, QUICK = 3.0, 1.2
STAGES = ("read", "preprocess", "infer", "write")
ROOT = Path(__file__).parents[2]
HOOKS = ROOT / "tests" / "chaos" / "matrix" / "hooks"


def measure(folder: Path) -> list[str]:
    """Each job's verdict, what it promises, and what came of it."""
    lines = []
    with pytest.MonkeyPatch.context() as patch, server_for_tests(database_in(folder)):
        patch.setenv("PYTHONPATH", f"{ROOT}:{HOOKS}")
        for name, value in FOR_CLIENTS.items():
            patch.setenv(name, value)
        with small_ray() as address:
            for slow in os.environ.get("VERDICT_JOBS", " ".join(STAGES)).split():
                lines.append(line_of(folder / slow, slow, address))
                print(lines[-1], flush=True)
    return [
        f"{BATCHES} batches; one stage sleeps {SLOW:g} s a batch, the model {QUICK:g} s where it "
        "is not that one; each job again with the setting that its report suggests. Seconds from "
        "the first row in the model to the last, in which workers that are added start.",
        "",
        "| bound by | verdict | share | promised | before | after | got | got ÷ promised |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *lines,
    ]


def line_of(folder: Path, slow: str, address: str) -> str:
    """One job, before and after."""
    before = run(folder / "before", slow, address, [])
    found = before["bottleneck"]
    print(sentence(found), before["stages"], flush=True)
    after = run(folder / "after", slow, address, [found["setting"]])
    print(after["stages"], flush=True)
    seconds = [each["seconds"]["steady"] for each in (before, after)]
    got = seconds[0] / seconds[1]
    cells = [
        slow,
        f"`{found['setting']}`: {found['stage']}",
        f"{found['share'] * 100:.0f} %",
        f"{found['gain']:.2f}",
        *(f"{each:.0f}" for each in seconds),
        f"{got:.2f}",
        f"{got / found['gain']:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def run(folder: Path, slow: str, address: str, settings: list[str]) -> dict[str, Any]:
    """One whole run; its report."""
    from flows.batch_inference import batch_inference

    make_input(folder / "in", SLOW if slow == "preprocess" else 0.0)
    report = batch_inference(complete_spec(spec(folder, slow, address), settings, ROOT))
    assert report["rows"]["written"] == BATCHES * ROWS
    return report


def make_input(folder: Path, step_seconds: float) -> None:
    """A file a batch."""
    folder.mkdir(parents=True)
    for number in range(BATCHES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        table = {"id": list(ids), "step_seconds": [step_seconds / ROWS] * ROWS}
        pq.write_table(pa.table(table), folder / f"{number:03d}.parquet")


def spec(folder: Path, slow: str, address: str) -> dict[str, Any]:
    """A job of one worker a stage, which ask for little of a core."""
    slow_storage = {"read": {"SLOW_READ": str(SLOW)}, "write": {"SLOW_WRITE": str(SLOW)}}
    one = {"num_cpus": 0.25, "max_workers": 1}
    return {
        "name": f"bound-by-{slow}",
        "source": {"kind": "parquet", "path": str(folder / "in")},
        "steps": [{"kind": "python", "function": "tests.benchmarks.sleeping:step"}],
        "model": {
            "kind": "python",
            "class": "tests.benchmarks.sleeping:Model",
            "init": {"seconds": SLOW if slow == "infer" else QUICK},
        },
        "sink": {"kind": "parquet", "path": str(folder / "out")},
        "cluster": {"kind": "local", "address": address},
        "resources": {"num_cpus": 0.25, "max_replicas": 1, "batch_size": ROWS},
        "stages": {
            "read": {**one, "num_cpus": 0.2, "rows_per_batch": ROWS},
            "preprocess": one,
            "write": {"max_workers": 1},
        },
        "environment": {"working_dir": str(ROOT), "env_vars": slow_storage.get(slow, {})},
    }
