"""Planning 100,000 small files: seconds, memory, and how many read tasks come of it."""

import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.orchestration import spec as spec_of

FILES, FOLDERS = 100_000, 100

PLAN = """
import resource, sys, time
from tasks.spec_file import load_spec
from tasks.plan import make_plan
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = time.monotonic()
planned = make_plan(load_spec(sys.argv[1]))
seconds = time.monotonic() - begun
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from tasks.run import left_to_do, next_attempt
begun = time.monotonic()
attempt = next_attempt(planned, left_to_do(planned, tried=False))
todo = time.monotonic() - begun
from tasks.ray_job.shares import cut_shares
print(len(planned.plan.shards), seconds, todo, before, after)
print(len(list(cut_shares(attempt.job, 64))))
print(len(list(cut_shares(attempt.job, 100_000))))
"""


def measure(folder: Path) -> list[str]:
    """Plan twice: from nothing, and the unfinished run again."""
    source = folder / "input"
    for number in range(FOLDERS):
        (source / str(number)).mkdir(parents=True)
        for file in range(FILES // FOLDERS):
            (source / str(number) / f"{file}.png").write_bytes(b"x")
    import yaml

    raw = spec_of(str(source), folder, folder / "out", str(Path(__file__).parents[2]))
    raw["source"] = {"kind": "images", "path": str(source)}
    (folder / "spec.yaml").write_text(yaml.safe_dump(raw))
    lines = ["| plan | shards | seconds | first todo | memory added | read tasks |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for name in ("new", "again"):
        begun = time.monotonic()
        command = [sys.executable, "-c", PLAN, str(folder / "spec.yaml")]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        shards, seconds, todo, before, after, reads, most = (float(each) for each in out)
        assert shards == FILES
        assert most <= 10_000
        lines.append(
            f"| {name} | {shards:,.0f} | {seconds:.1f} | {todo:.1f} s | "
            f"{(after - before) / 1024:.0f} MiB | {reads:,.0f} on 64 cores, {most:,.0f} at most |"
        )
        print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
    return lines
