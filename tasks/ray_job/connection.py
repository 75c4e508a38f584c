"""Which Ray a driver uses: one it starts, one that runs, or the one it was sent to.

Knows no Ray Data, whose import takes as long as a worker's start: the two are to overlap.
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tasks.kinds.clusters import LocalCluster
from tasks.machine import GIB
from tasks.ray_job.bare_head import bare_head
from tasks.ray_job.job import Job
from tasks.ray_job.own_machine import cores_handed_out, is_own_machine
from tasks.spec import BatchInferenceSpec

CLAIM = "RAY_DATA_AUTOSCALING_REQUEST_EXPIRE_TIME_S"
CLAIM_SECONDS = 30
"""For so long a cluster shares its nodes out to a driver that has died, too: the next attempt may
have fewer replicas until then, since of two claims on one GPU neither gets it. A driver that lives
renews its claim each ten seconds; Ray's own number is three minutes."""


TOKEN, ROOM_FOR_TOKEN = "RAY_AUTH_TOKEN", 4096
"""What a Ray asks of whoever joins it."""


@contextmanager
def connected(job: Job) -> Iterator[None]:
    """Ray, started here or joined; one that was joined is left at the end."""
    os.environ.setdefault(CLAIM, str(CLAIM_SECONDS))  # Ray Data reads it when it is imported
    import ray

    if not ray.is_initialized():  # a driver that has waited for its job has started it
        connect(connection(job.spec, os.environ))
    try:
        verb = "started" if is_own_machine(job.spec) else "joined"
        print(f"{verb} Ray at {ray.get_runtime_context().gcs_address}", flush=True)
        yield
    finally:
        if not is_own_machine(job.spec):
            ray.shutdown()  # one of its own ends with the driver


def connect(options: dict[str, Any]) -> None:
    """Start Ray, or join one, with what `connection` gave."""
    import ray

    is_own = options["address"] == "local"
    if is_own:
        need_no_home()
    with bare_head() if is_own else nullcontext():
        ray.init(log_to_driver=True, logging_level="WARNING", **options)


def need_no_home() -> None:
    """Have a token for a Ray of one's own where it cannot leave one in the home directory.

    As in a container whose disk is read-only, or whose user has no home.
    """
    if {TOKEN, f"{TOKEN}_PATH", "RAY_AUTH_MODE"} & {*os.environ}:
        return
    try:
        file = Path.home() / ".ray" / "auth_token"
        if not file.exists() or not file.stat().st_size:
            file.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=file.parent) as trial:
                trial.write(bytes(ROOM_FOR_TOKEN))
    except (OSError, RuntimeError):
        os.environ[TOKEN] = secrets.token_hex()


def connection(spec: BatchInferenceSpec, environment: Mapping[str, str]) -> dict[str, Any]:
    """Which Ray to use, as arguments of `ray.init`.

    Args:
        spec: asks.
        environment: the driver's.
    """
    match spec.cluster:
        case LocalCluster(address=None, object_store_gb=size):
            # Without an address Ray would join whatever was last started on this machine.
            options: dict[str, Any] = {"address": "local", "include_dashboard": False}
            options["num_cpus"] = cores_handed_out(spec)
            return {**options, "object_store_memory": int(size * GIB)} if size else options
        case LocalCluster(address=address):
            # Workers of a Ray that runs already have its environment, not the driver's.
            path = {name: environment[name] for name in ("PYTHONPATH",) if name in environment}
            env_vars = {**spec.environment.env_vars, **path}  # which begins with our own code
            return {"address": address, "runtime_env": {"env_vars": env_vars}}
    return {"address": "auto"}  # submitted: Ray has set up environment and address
