"""What of a machine a container has."""

import math
import os
from pathlib import Path

import psutil
import pytest

from tasks import machine
from tasks.errors import InvalidSpec
from tasks.planning import preflight
from tasks.planning.preflight import check_cluster, count_gpus, this_machine
from tasks.spec_file import parse_spec

GIB = 1 << 30
NEW = {
    "cpu.max": "150000 100000\n",
    "memory.max": f"{GIB}\n",
    "memory.current": f"{GIB // 2}\n",
    "memory.stat": f"anon 5\ninactive_file {GIB // 4}\n",
}
OLD = {
    "cpu/cpu.cfs_quota_us": "150000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "memory/memory.limit_in_bytes": f"{GIB}\n",
    "memory/memory.usage_in_bytes": f"{GIB // 2}\n",
    "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB // 4}\n",
}
UNLIMITED = {
    "new": {"cpu.max": "max 100000\n", "memory.max": "max\n", "memory.current": "5\n"},
    "old": {
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
        "memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
    },
    "none": {},
}


def contained(folder: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of eight cores and 64 GiB, a quarter of it in use, seen from a container."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    whole = psutil.virtual_memory()._replace(total=64 * GIB, available=48 * GIB)
    monkeypatch.setattr(machine, "CGROUP", folder)
    monkeypatch.setattr(machine, "OWN_GROUPS", folder / "groups of the process")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: whole)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))


@pytest.mark.parametrize("files", [NEW, OLD], ids=["new", "old"])
def test_a_container_has_what_it_is_granted(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contained(tmp_path, files, monkeypatch)
    assert (machine.cores_granted(), machine.cores()) == (1.5, 2)
    assert machine.memory() == GIB
    assert machine.free_memory() == GIB * 3 // 4


@pytest.mark.parametrize(
    ("files", "own_groups", "limited"),
    [
        (NEW, "0::/jobs.slice/nightly.service\n", "jobs.slice/nightly.service/"),
        (NEW, "0::/jobs.slice/nightly.service\n", "jobs.slice/"),
        (OLD, "7:cpu,cpuacct:/slurm/job_7\n6:memory:/slurm/job_7\n0::/else\n", "slurm/job_7/"),
        (NEW, "0::/docker/named-as-on-its-host\n", ""),
        (NEW, "0::/../../outside-of-the-container\n", ""),
    ],
)
def test_a_unit_or_a_batch_job_has_what_its_groups_are_granted(
    files: dict[str, str],
    own_groups: str,
    limited: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by `systemd-run -p MemoryMax=1G -p CPUQuota=150%`: only a container sees them as all."""
    spent = {"cpu.stat": "usage_usec 2500000\n", "cpuacct/cpuacct.usage": "2500000000\n"}
    below = {
        str(Path(name).parent / limited / Path(name).name): content
        for name, content in (files | spent).items()
    }
    contained(tmp_path, UNLIMITED["new"] | below, monkeypatch)
    (tmp_path / "groups of the process").write_text(own_groups)
    assert (machine.cores_granted(), machine.busy_seconds()) == (1.5, 2.5)
    assert (machine.memory(), machine.free_memory()) == (GIB, GIB * 3 // 4)


@pytest.mark.parametrize("files", UNLIMITED.values(), ids=UNLIMITED)
def test_without_limits_all_of_the_machine_is_ours(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contained(tmp_path, files, monkeypatch)
    assert (machine.cores_granted(), machine.cores()) == (math.inf, 8)
    assert (machine.memory(), machine.free_memory()) == (64 * GIB, 48 * GIB)


@pytest.mark.parametrize(
    "files",
    [
        NEW | {"cpu.stat": "usage_usec 2500000\nuser_usec 7\n"},
        OLD | {"cpuacct/cpuacct.usage": "2500000000\n"},
    ],
    ids=["new", "old"],
)
def test_cores_of_a_container_are_as_busy_as_it_is(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contained(tmp_path, files, monkeypatch)
    assert machine.busy_seconds() == 2.5


def test_cores_that_others_keep_busy_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contained(tmp_path, {}, monkeypatch)
    of_nobody = psutil.cpu_times()._replace(**dict.fromkeys(psutil.cpu_times()._fields, 0.0))
    times = [
        of_nobody._replace(user=float(core), system=1.0, idle=50.0, iowait=30.0)
        for core in range(8)
    ]
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: times)
    assert machine.busy_seconds() == sum(range(8)) + 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5})
    assert machine.busy_seconds() == 3 + 5 + 2
    times[3] = times[3]._replace(user=4.0, guest=4.0)  # user time has that of guests in it
    assert machine.busy_seconds() == 4 + 5 + 2


def test_cores_of_others_are_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contained(tmp_path, {}, monkeypatch)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    assert machine.cores() == 1


def test_jobs_go_by_what_the_container_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.ray_job.local_autoscaling import LocalAutoscaler
    from tasks.ray_job.stage_functions import threads_for

    contained(tmp_path, NEW, monkeypatch)
    found = this_machine()
    assert (found["CPU"], found["memory"]) == (2, 1)
    assert (machine.cores(), threads_for(8)) == (2, 2)
    assert LocalAutoscaler(100).free_before == GIB * 3 // 4


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        ("0,1", 2),
        ("", 0),
        ("-1", 0),
        ("NoDevFiles", 0),
        ("GPU-a, GPU-b", 2),
        ("MIG-a", 1),
        ("0,-1,1", 1),
        ("0,,1", 1),
        (None, 2),
    ],
)
def test_gpus_are_those_that_this_process_may_use(
    visible: str | None, gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA knows none after the first that it does not find."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.setattr(preflight, "Path", {"/dev": tmp_path}.__getitem__)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert count_gpus() == gpus


def test_a_gpu_of_this_machine_has_the_name_that_ray_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stand-in for the driver: no GPU is at hand."""
    from ray._private.thirdparty import pynvml

    spec = parse_spec(
        {
            "source": {"kind": "text", "path": "in.txt"},
            "model": {"kind": "python", "class": "code:Model"},
            "sink": {"kind": "jsonl", "path": "out"},
            "cluster": {"kind": "local"},
            "resources": {"accelerator_type": "A100", "num_gpus": 1, "num_cpus": 1},
        }
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda at: at)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: "NVIDIA A100-SXM4-40GB")
    assert "1 GPU" in check_cluster(spec)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", lambda handle: "Tesla T4")
    with pytest.raises(InvalidSpec, match=r"resources.accelerator_type: 'A100' is requested"):
        check_cluster(spec)
    monkeypatch.setattr(pynvml, "nvmlInit", unreachable_driver)
    with pytest.raises(InvalidSpec, match=r"resources.accelerator_type: 'A100' is requested"):
        check_cluster(spec)


def unreachable_driver() -> None:
    from ray._private.thirdparty import pynvml

    raise pynvml.NVMLError_DriverNotLoaded()
