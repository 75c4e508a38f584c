"""What of this machine is ours: a container has a part of its cores and of its memory.

So have a systemd unit and a job of a batch system such as Slurm. Python and psutil say what the
whole machine has. Whoever goes by that in a container with two of 64 cores starts 64 replicas in
the memory of two.
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
"""Where control groups are, of either version; a container sees its own as if it were all."""
OWN_GROUPS = Path("/proc/self/cgroup")
"""The paths of this process's groups below that, where it is in no container of its own."""


def cores() -> int:
    """CPU cores that this process may use."""
    return max(1, math.ceil(min(len(usable_cores()), cores_granted())))


def usable_cores() -> set[int]:
    """Numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not so on macOS
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores_granted() -> float:
    """CPU cores that the control groups grant; infinite without a limit."""
    return min(map(quota_of, groups("cpu")))


def quota_of(group: Path) -> float:
    """CPU cores that a control group grants; infinite without a limit."""
    quota, period = [*said(group / "cpu.max").split(), "", ""][:2]
    quota = quota or said(group / "cpu.cfs_quota_us")
    period = period or said(group / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else math.inf


def busy_seconds() -> float:
    """Core seconds spent so far on the cores that this process may use, by whomever."""
    tightest = min(groups("cpu"), key=quota_of)
    if math.isfinite(quota_of(tightest)) and (spent := spent_in(tightest)):
        return spent
    of_cores = dict(enumerate(psutil.cpu_times(percpu=True)))
    return sum(busy_of(of_cores[core]) for core in usable_cores() if core in of_cores)


def spent_in(group: Path) -> float:
    """Core seconds spent so far in a control group; 0 where it does not say."""
    spent = dict(line.split() for line in said(group / "cpu.stat").splitlines())
    if "usage_usec" in spent:
        return int(spent["usage_usec"]) / 1e6
    accounts = CGROUP / "cpuacct" / os.path.relpath(group, CGROUP / "cpu")
    return int(said(accounts / "cpuacct.usage") or 0) / 1e9


def busy_of(times: Any) -> float:
    """Seconds in which a core did something, that of guests counted once."""
    aside = ("idle", "iowait", "guest", "guest_nice")
    return float(sum(times) - sum(getattr(times, name, 0.0) for name in aside))


def memory() -> int:
    """Bytes that this process and its like may use, those in use included."""
    return int(min(psutil.virtual_memory().total, memory_granted()))


def free_memory() -> int:
    """Bytes that may be taken now; the cache of files makes room."""
    left = min(map(memory_left, groups("memory")))
    return int(max(0, min(psutil.virtual_memory().available, left)))


def memory_left(group: Path) -> float:
    """Bytes that may be taken now in a control group; infinite without a limit."""
    used = said(group / "memory.current") or said(group / "memory.usage_in_bytes") or "0"
    return limit_of(group) - int(used) + file_cache(group)


def memory_granted() -> float:
    """Bytes that the control groups grant; infinite without a limit."""
    return min(map(limit_of, groups("memory")))


def threads_left() -> float:
    """Processes and threads that the control groups let this process and its like start yet."""
    return min(map(threads_left_in, groups("pids")))


def threads_left_in(group: Path) -> float:
    """The same of one control group; infinite without a limit."""
    limit = said(group / "pids.max")
    return int(limit) - int(said(group / "pids.current") or 0) if limit.isdigit() else math.inf


def limit_of(group: Path) -> float:
    """Bytes that a control group grants; infinite without a limit."""
    limit = said(group / "memory.max") or said(group / "memory.limit_in_bytes")
    return int(limit) if limit.isdigit() else math.inf


def file_cache(group: Path) -> int:
    """Bytes of files that a control group has read and need not keep."""
    counts = dict(line.split() for line in said(group / "memory.stat").splitlines())
    return int(counts.get("total_inactive_file") or counts.get("inactive_file") or 0)


def groups(controller: str) -> list[Path]:
    """This process's control groups: its own, those it is in, and the one of all of them.

    Args:
        controller: of what is granted: `cpu`, `memory` or `pids`.
    """
    found = [CGROUP, CGROUP / controller]  # of the new version, and of the old one
    for line in said(OWN_GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        top = CGROUP / controller if controllers else CGROUP
        if controller in controllers.split(",") or not controllers:
            own = top / path.lstrip("/")
            found += [each for each in (own, *own.parents) if top in each.parents]
    return found


def said(file: Path) -> str:
    """What a file of a control group says; nothing where there is none."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
