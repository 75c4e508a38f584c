"""Ray Data on a machine that one job has to itself, without processes that only clusters need.

Each would take a core for a second or more while the job starts, and a worker that Ray has started
in advance, which a replica could have had.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import ray
from ray.data._internal import stats
from ray.data._internal.cluster_autoscaler import rate_based_cluster_autoscaler
from ray.data._internal.cluster_autoscaler.base_autoscaling_coordinator import (
    STANDARD_RESOURCE_TYPES,
    AutoscalingCoordinator,
    NodeResources,
)
from ray.data._internal.execution.operators import actor_pool_map_operator


class WholeMachine(AutoscalingCoordinator):
    """Gives the job what there is; on a cluster an actor shares that out among jobs."""

    def __init__(self, **_: Any) -> None:
        """Of a job, whatever its name."""

    def request_resources(self, *_: Any, **__: Any) -> None:
        """Nothing: there is no more."""

    def cancel_request(self) -> None:
        """Nothing: nobody else wants it."""

    def get_reserved_resources(self) -> NodeResources:
        """Resources of this machine, by node."""
        return self.all_there_is

    @cached_property
    def all_there_is(self) -> NodeResources:
        """As Ray knew them when it started."""
        return {
            node["NodeID"]: {
                name: amount
                for name, amount in node["Resources"].items()
                if name in STANDARD_RESOURCE_TYPES
            }
            for node in ray.nodes()
            if node["Alive"]
        }


class NoLocations:
    """In place of an actor that replicas tell on which node they are: there is one."""

    @property
    def update_actor_location(self) -> "NoLocations":
        """What a replica calls."""
        return self

    def remote(self, *_: Any) -> None:
        """The call."""


def nothing(*_: Any, **__: Any) -> None:
    """In place of telling an actor of the dataset, for the pages of a dashboard."""


@contextmanager
def bare_data() -> Iterator[None]:
    """Have a dataset that runs meanwhile start none of them."""
    instead: list[tuple[Any, str, Any]] = [
        (rate_based_cluster_autoscaler, "DefaultAutoscalingCoordinator", WholeMachine),
        (actor_pool_map_operator, "get_or_create_actor_location_tracker", NoLocations),
        (actor_pool_map_operator, "get_actor_locations", lambda _: {}),
        (stats._StatsManager, "register_dataset_to_stats_actor", nothing),
        (stats._StatsManager, "update_execution_metrics", nothing),
        (stats._StatsManager, "update_iteration_metrics", nothing),
    ]
    usual = [(module, name, getattr(module, name)) for module, name, _ in instead]
    try:
        for module, name, ours in instead:
            setattr(module, name, ours)
        yield
    finally:
        for module, name, former in usual:
            setattr(module, name, former)
