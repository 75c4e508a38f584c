"""Whether a run does as well without Ray: a small one, or any on few cores."""

import json
from typing import Any

from tasks.clusters.own_ray import joined
from tasks.counted import counted
from tasks.kinds.clusters import LocalCluster
from tasks.machine import cores
from tasks.plan import PlannedRun
from tasks.planning.preflight import could_run_inline
from tasks.ray_job.own_machine import lies_near
from tasks.spec import BatchInferenceSpec

START_SECONDS = 12.0
"""Ray's start on this machine; what takes less work than that is small."""
FEW_ROWS, FEW_BYTES = 256, 32 << 20
"""Small where nobody knows the model's speed yet."""
FEW_BYTES_OF_UNKNOWN_ROWS = 64 << 10
FEW_CORES = 2
"""On so many, one process was measured to be quicker; of more nobody knows."""


def advice_without_ray(planned: PlannedRun) -> str | None:
    """Say that the run needs no Ray, and how that is known; None where it may need one.

    Never of a run that could use a GPU or a cluster, or has what inline refuses.
    """
    cluster = joined(planned.spec.cluster)
    on_own_ray = isinstance(cluster, LocalCluster) and cluster.address is None
    needs_ray = not could_run_inline(planned.spec) or planned.is_cut
    if not on_own_ray or needs_ray or planned.nothing_to_do:
        return None
    rows, each = planned.plan.pins["known_rows"], seconds_of_last_rows(planned)
    basis = seconds_of(rows, each) if rows and each else size_of(planned, rows)
    if basis:
        return f"a small job ({basis}): cluster.kind: inline runs it without starting Ray"
    if not one_process_does(planned.spec):
        return None
    return (
        f"{counted(cores(), 'core')}, no GPU, and a model that uses all cores by itself: "
        "cluster.kind: inline is probably faster than Ray's processes, and takes less memory"
    )


def one_process_does(spec: BatchInferenceSpec) -> bool:
    """Whether one process is as quick as Ray's on this machine.

    Other code than the built-in models' may keep the others from computing; and of storages that
    are slow to answer Ray reads several files at once.
    """
    asked = spec.resources.num_cpus
    has_all_cores = spec.model.uses_threads and (asked == "auto" or asked >= cores())
    is_quick = has_all_cores and not any(each.is_heavy for each in spec.steps)
    return is_quick and lies_near(spec.source) and cores() <= FEW_CORES


def seconds_of(rows: int, each: float) -> str | None:
    """The work in seconds; None where it is much."""
    seconds = rows * each
    if seconds > START_SECONDS:
        return None
    return f"{counted(rows, 'row')}, {seconds:.1f} s if each takes as long as in the last version"


def size_of(planned: PlannedRun, rows: int | None) -> str | None:
    """Rows and bytes; None where they are many."""
    size = sum(planned.plan.shards["size"].to_pylist())
    if rows is None:
        return f"{size:,} bytes" if size <= FEW_BYTES_OF_UNKNOWN_ROWS else None
    return (
        f"{counted(rows, 'row')}, {size:,} bytes"
        if rows <= FEW_ROWS and size <= FEW_BYTES
        else None
    )


def seconds_of_last_rows(planned: PlannedRun) -> float | None:
    """Seconds that one worker of the slowest stage had with a source's row, in the last version.

    None where nobody knows, or where GPUs did the work: this process would have none.
    """
    entry = planned.ledger.look().entries.get(planned.plan.pins["ledger_version"])
    if entry is None:
        return None
    try:
        manifest = json.loads(planned.storage.read(planned.output.manifest(entry["run_id"])))
    except (OSError, ValueError):
        return None
    return seconds_per_row(manifest)


def seconds_per_row(manifest: dict[str, Any]) -> float | None:
    """The same of a run's manifest."""
    try:
        rows, gpu_hours = manifest["rows"]["read"], manifest["held"]["gpu_hours"]
        slowest = max(stage["seconds"] for stage in manifest["stages"].values())
    except (KeyError, TypeError):  # an earlier version's
        return None
    return float(slowest / rows) if rows and slowest and not gpu_hours else None
