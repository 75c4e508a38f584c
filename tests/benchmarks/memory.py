"""Memory does not grow with the input: one object store's worth, and ten times that."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

STORE_GB = 0.1
ROWS_PER_FILE, WIDTH = 2_000, 1_000
BYTES_PER_FILE = ROWS_PER_FILE * WIDTH * 8
SAMPLE_SECONDS = 0.5


class Shrink:
    """Makes a wide row narrow."""

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"mean": batch["wide"].mean(axis=1)}


def measure(folder: Path) -> list[str]:
    """Peak private memory of the job's processes for both inputs."""
    store = STORE_GB * (1 << 30)
    sizes = {"1 x": round(store / BYTES_PER_FILE), "10 x": round(10 * store / BYTES_PER_FILE)}
    peaks = {}
    for name, files in sizes.items():
        peaks[name] = run(folder / name.replace(" ", ""), files)
        print(f"{name}: {files} files, peak {peaks[name] / 1e6:.0f} MB", flush=True)
    first, second = peaks.values()
    return [
        f"Object store of {STORE_GB} GiB; rows of {WIDTH * 8:,} bytes; proportional set size of "
        "driver, raylet and workers, shared memory left out, at its highest.",
        "",
        "| input | files | peak | ratio |",
        "| --- | --- | --- | --- |",
        f"| 1 x the store | {sizes['1 x']} | {first / 1e6:,.0f} MB | 1 |",
        f"| 10 x the store | {sizes['10 x']} | {second / 1e6:,.0f} MB | {second / first:.2f} |",
    ]


def run(folder: Path, files: int) -> int:
    """One whole run; the highest private memory of the driver and its children, in bytes."""
    source = folder / "input"
    source.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(files):
        values = pa.array(random.standard_normal(ROWS_PER_FILE * WIDTH))
        wide = pa.FixedSizeListArray.from_arrays(values, WIDTH)
        pq.write_table(pa.table({"wide": wide}), source / f"{number:04d}.parquet", compression=None)
    code = str(Path(__file__).parents[2])
    spec = {
        "source": {"kind": "parquet", "path": str(source)},
        "model": {"kind": "python", "class": "tests.benchmarks.memory:Shrink"},
        "sink": {"kind": "parquet", "path": str(folder / "out"), "keep_columns": []},
        "cluster": {"kind": "local", "object_store_gb": STORE_GB},
        "resources": {"max_replicas": 1},
        "environment": {"working_dir": code},
    }
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    command = [str(Path(sys.executable).with_name("batch-inference")), "run"]
    process = subprocess.Popen(
        [*command, str(folder / "spec.yaml")],
        env={**os.environ, "PYTHONPATH": code},
        stderr=subprocess.DEVNULL,
    )
    peak = watch(process)
    assert process.returncode == 0
    published = sum(pq.read_metadata(p).num_rows for p in (folder / "out").glob("*.parquet"))
    assert published == files * ROWS_PER_FILE
    return peak


def watch(process: "subprocess.Popen[bytes]") -> int:
    """Sample until the process ends; the driver's tree only, without Prefect's server."""
    peak = 0
    over = threading.Event()
    while process.poll() is None:
        peak = max(peak, driver_memory(process.pid))
        over.wait(SAMPLE_SECONDS)
    return peak


def driver_memory(pid: int) -> int:
    """Private bytes of the job's driver and all it has started."""
    total = 0
    try:
        for child in psutil.Process(pid).children():
            if "tasks.ray_job" in " ".join(child.cmdline()):
                tree = [child, *child.children(recursive=True)]
                total += sum(private_bytes(each.pid) for each in tree)
    except psutil.NoSuchProcess:
        pass
    return total


def private_bytes(pid: int) -> int:
    """Proportional set size without shared memory."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return (sizes["Pss"] - sizes["Pss_Shmem"]) * 1024
