"""How long a replica's GPUs were busy, as their driver says."""

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tasks.ray_job.counts import Reporter

LOOK_EVERY_SECONDS = 0.5
"""The driver averages over up to a second, depending on the GPU."""


@dataclass
class DeviceClock:
    """Looks now and then, from a thread of its own, as long as its process lives."""

    nvml: Any
    devices: list[Any]
    busy: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Look for ever; what the driver does not tell for once counts as idle."""
        at = time.monotonic()
        while True:
            time.sleep(LOOK_EVERY_SECONDS)
            before, at = at, time.monotonic()
            with suppress(self.nvml.NVMLError):
                self.look(at - before)

    def look(self, seconds: float) -> None:
        """The GPUs were as busy as they are now for so long; several count as one."""
        used = [self.nvml.nvmlDeviceGetUtilizationRates(each).gpu for each in self.devices]
        with self.lock:
            self.busy += seconds * sum(used) / len(used) / 100

    def lap(self) -> float:
        """Busy seconds since the last lap."""
        with self.lock:
            busy, self.busy = self.busy, 0.0
        return busy


def with_device(report: Reporter, num_gpus: float) -> Reporter:
    """A reporter that adds how long the replica's GPUs were busy, where it has any."""
    clock = device_clock() if num_gpus > 0 else None
    if clock is None:
        return report
    threading.Thread(target=clock.run, name="device-clock", daemon=True).start()
    return lambda each: report(replace(each, device_seconds=clock.lap()))


def device_clock() -> DeviceClock | None:
    """A clock for the GPUs that this process may use; None where their driver does not tell."""
    from ray._private.thirdparty import pynvml  # codespell:ignore thirdparty

    try:
        pynvml.nvmlInit()
        names = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
        devices = [device_of_name(pynvml, name.strip()) for name in names]
        clock = DeviceClock(pynvml, devices)
        clock.look(0.0)  # parts of a GPU, for one, do not tell
    except pynvml.NVMLError as error:
        print(f"cannot tell how busy the GPUs are: {error}", flush=True)
        return None
    return clock


def device_of_name(nvml: Any, name: str) -> Any:
    """A GPU by its number, or by its UUID."""
    if name.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)
