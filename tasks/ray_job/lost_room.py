"""Ends a job that has lost nodes and has no room left in which it could go on.

Ray starts the replicas of a lost node anew. They may take the last cores there are, and what they
are to predict may lie on the lost node: no core is left to read it again, and each waits for the
other. Or one finds no place, and the batches that were handed to it wait for it. Another attempt
begins with as many replicas as there is room for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tasks.counted import counted
from tasks.errors import NoProgress
from tasks.ray_job.cluster_capacity import Node, crowding
from tasks.ray_job.job import Job

STUCK_SECONDS = 60.0
"""So long no row has moved: a batch may take a while, and another node may be on its way."""
COUNTED = ("CPU", "GPU")


@dataclass
class LostRoom:
    """Remembers how much there was."""

    job: Job
    num_gpus: float
    """Of one replica."""
    most: Node = field(default_factory=dict)
    """That nodes have ever had together."""

    def see(self, nodes: Sequence[Node]) -> None:
        """Take note of the nodes that there are."""
        self.most = {name: max(self.most.get(name, 0.0), all_of(nodes, name)) for name in COUNTED}

    def look(self, nodes: list[Node], replicas: int, still_seconds: float) -> None:
        """See that replicas and a worker beside them have room where nothing moves.

        Args:
            nodes: that there are now.
            replicas: that have begun, and run or are started anew.
            still_seconds: for how long no row has moved.

        Raises:
            NoProgress: they have none, and had some.
        """
        self.see(nodes)
        has_lost = any(all_of(nodes, name) < self.most[name] for name in COUNTED)
        # With no more replicas than another attempt would want, it would wait as well.
        is_few = replicas <= self.job.spec.resources.min_replicas
        if not has_lost or is_few or still_seconds < STUCK_SECONDS:
            return
        wanted = {"min_replicas": replicas, "num_gpus": self.num_gpus}
        asked = crowding(self.job.spec.with_part("resources", **wanted), nodes, self.job.stages)
        if asked:
            raise NoProgress(
                f"no row has moved for {still_seconds:.0f} s since nodes were lost: "
                f"{counted(replicas, 'replica')} and a worker beside find no room ({asked})"
            ).locate("infer")


def all_of(nodes: Sequence[Node], name: str) -> float:
    """What all nodes have of a resource."""
    return sum(node.get(name, 0.0) for node in nodes)
