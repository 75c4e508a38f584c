"""What a driver has Ray do for it, set before Ray Data is imported."""

import os
import subprocess
import sys

from tasks.ray_job.connection import CLAIM, CLAIM_SECONDS

DRIVER = """
from types import SimpleNamespace

import ray

from tasks.ray_job import connection

ray.is_initialized = lambda: True
ray.get_runtime_context = lambda: SimpleNamespace(gcs_address="there")
ray.shutdown = lambda: None
connection.is_own_machine = lambda spec: False
with connection.connected(SimpleNamespace(spec=None)):
    from ray.data._internal.cluster_autoscaler import DEFAULT_CLUSTER_AUTOSCALER_VERSION as usual
    from ray.data._internal.cluster_autoscaler import RateBasedClusterAutoscaler as autoscaler

    print(usual, autoscaler.AUTOSCALING_REQUEST_EXPIRE_TIME_S)
"""


def seconds_of_claim(**environment: str) -> str:
    """What Ray's autoscaler of a job would take, as its driver has set it."""
    told = subprocess.run(
        [sys.executable, "-c", DRIVER],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return told.stdout.splitlines()[-1]


def test_a_dead_driver_does_not_keep_its_nodes_for_long() -> None:
    """Else the next attempt would wait three minutes for them."""
    assert seconds_of_claim() == f"RATE_BASED {CLAIM_SECONDS}"
    assert seconds_of_claim(**{CLAIM: "77"}) == "RATE_BASED 77"
