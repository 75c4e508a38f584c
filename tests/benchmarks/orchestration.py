"""What the flow costs: a bare, well-written Ray Data script beside it, alternating."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.benchmarks.model import steady

FILES, ROWS_PER_FILE, BATCH, ROUNDS = 120, 1_000, 64, 3

BARE = """
import sys
import ray
from ray.data import ActorPoolStrategy
sys.path.insert(0, {code!r})
from tests.benchmarks.model import Busy
ray.init(include_dashboard=False, logging_level="ERROR")
ray.data.DataContext.get_current().enable_progress_bars = False
rows = ray.data.read_parquet({source!r})
rows = rows.map_batches(Busy, fn_constructor_args=({log!r},), batch_size={batch}, num_cpus=1,
                        compute=ActorPoolStrategy(size=1))
rows.write_parquet({output!r})
"""


def measure(folder: Path) -> list[str]:
    """Steady seconds of both, and their ratio."""
    source = make_input(folder)
    pairs = []
    for number in range(ROUNDS):
        kinds = ("bare", "flow") if number % 2 == 0 else ("flow", "bare")
        seconds = {kind: run(kind, folder, source, number) for kind in kinds}
        print(f"round {number}: {seconds}", flush=True)
        pairs.append((seconds["bare"], seconds["flow"]))
    ratios = sorted(bare / flow for bare, flow in pairs)
    bare, flow = (statistics.median(each) for each in zip(*pairs, strict=True))
    return [
        f"{FILES * ROWS_PER_FILE:,} rows in {FILES} Parquet files, batches of {BATCH}, one replica "
        f"of one core, {ROUNDS} alternating rounds; seconds from the first to the last row in the "
        "model.",
        "",
        "| bare Ray Data script | flow | bare ÷ flow: median (lowest to highest) |",
        "| --- | --- | --- |",
        f"| {bare:.1f} s | {flow:.1f} s | {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}) |",
    ]


def make_input(folder: Path) -> str:
    """Parquet files of id and x."""
    source = folder / "input"
    source.mkdir()
    for number in range(FILES):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        table = pa.table({"id": list(ids), "x": [each / 1e6 for each in ids]})
        pq.write_table(table, source / f"{number:04d}.parquet")
    return str(source)


def run(kind: str, folder: Path, source: str, number: int) -> float:
    """One whole run in a process of its own; its steady seconds."""
    log, output = folder / f"log-{kind}-{number}", folder / f"out-{kind}-{number}"
    log.mkdir()
    code = str(Path(__file__).parents[2])
    if kind == "bare":
        script = BARE.format(
            source=source, log=str(log), output=str(output), batch=BATCH, code=code
        )
        command = [sys.executable, "-c", script]
    else:
        file = folder / f"spec-{number}.yaml"
        file.write_text(yaml.safe_dump(spec(source, log, output, code)))
        command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(file)]
    environment = {**os.environ, "PYTHONPATH": code}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    seconds, rows = steady(log)
    assert rows == FILES * ROWS_PER_FILE, f"{kind} predicted {rows} rows"
    written = sum(pq.read_metadata(path).num_rows for path in output.glob("*.parquet"))
    assert written == rows, f"{kind} wrote {written} rows"
    return seconds


def spec(source: str, log: Path, output: Path, code: str) -> dict[str, object]:
    """The same job as a spec."""
    return {
        "source": {"kind": "parquet", "path": source},
        "model": {
            "kind": "python",
            "class": "tests.benchmarks.model:Busy",
            "init": {"log": str(log)},
        },
        "sink": {"kind": "parquet", "path": str(output)},
        "resources": {"batch_size": BATCH, "max_replicas": 1},
        "environment": {"working_dir": code},
    }
