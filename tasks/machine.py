"""What of this machine is ours: a container has a part of its cores and of its memory.

Python and psutil say what the whole machine has. Whoever goes by that in a container with two of 64
cores starts 64 replicas in the memory of two.
"""

import math
import os
from pathlib import Path
from typing import Any

import psutil

GIB = 1 << 30
MEMORY_TO_USE = 0.8
"""Of what is free, for replicas: batches take some."""
CGROUP = Path("/sys/fs/cgroup")
"""As a container sees its own limits, in the files of either version of control groups."""


def cores() -> int:
    """CPU cores that this process may use."""
    return max(1, math.ceil(min(len(usable_cores()), cores_granted())))


def usable_cores() -> set[int]:
    """Numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not so on macOS
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores_granted() -> float:
    """CPU cores that a container may use; infinite without a limit."""
    quota, period = [*said("cpu.max").split(), "", ""][:2]
    quota = quota or said("cpu/cpu.cfs_quota_us")
    period = period or said("cpu/cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else math.inf


def busy_seconds() -> float:
    """Core seconds spent so far on the cores that this process may use, by whomever."""
    if math.isfinite(cores_granted()):
        spent = dict(line.split() for line in said("cpu.stat").splitlines())
        if "usage_usec" in spent:
            return int(spent["usage_usec"]) / 1e6
        return int(said("cpuacct/cpuacct.usage") or 0) / 1e9
    of_cores = dict(enumerate(psutil.cpu_times(percpu=True)))
    return sum(busy_of(of_cores[core]) for core in usable_cores() if core in of_cores)


def busy_of(times: Any) -> float:
    """Seconds in which a core did something, that of guests counted once."""
    aside = ("idle", "iowait", "guest", "guest_nice")
    return float(sum(times) - sum(getattr(times, name, 0.0) for name in aside))


def memory() -> int:
    """Bytes that this process and its like may use, those in use included."""
    return int(min(psutil.virtual_memory().total, memory_granted()))


def free_memory() -> int:
    """Bytes that may be taken now; the cache of files makes room."""
    used = said("memory.current") or said("memory/memory.usage_in_bytes") or "0"
    left = memory_granted() - int(used) + file_cache()
    return int(max(0, min(psutil.virtual_memory().available, left)))


def memory_granted() -> float:
    """Bytes that a container may use; infinite without a limit."""
    limit = said("memory.max") or said("memory/memory.limit_in_bytes")
    return int(limit) if limit.isdigit() else math.inf


def file_cache() -> int:
    """Bytes of files that a container has read and need not keep."""
    lines = (said("memory.stat") or said("memory/memory.stat")).splitlines()
    counts = dict(line.split() for line in lines)
    return int(counts.get("total_inactive_file") or counts.get("inactive_file") or 0)


def said(name: str) -> str:
    """A file of the control group; nothing where there is none."""
    try:
        return (CGROUP / name).read_text().strip()
    except OSError:
        return ""
