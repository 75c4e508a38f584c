"""Watches a job while Ray's executor works: its progress, its followers, its workers, its room."""

import time
from dataclasses import replace
from typing import Any, ClassVar

from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data._internal.execution.operators.map_operator import MapOperator

from tasks.errors import NoProgress
from tasks.ray_job.cluster_capacity import crowding
from tasks.ray_job.counts import STAGES
from tasks.ray_job.executor_polling import PollInterval
from tasks.ray_job.executor_status import Aloud, replicas_now, status_of, workers_now
from tasks.ray_job.follower_heartbeat import Followed
from tasks.ray_job.job import LOAD_SECONDS, Job
from tasks.ray_job.local_autoscaling import LocalAutoscaler
from tasks.ray_job.lost_room import refuse_without_room
from tasks.ray_job.nodes import nodes_lost, nodes_now
from tasks.ray_job.own_machine import is_own_machine
from tasks.ray_job.progress import JobStatus, Progress

STILL_SECONDS = 5.0
LATER_SECONDS = 60.0
"""A job ends itself so much later than whoever follows it would: of one that nobody follows too."""


class Watch(ExecutionCallback):
    """Ray's executor calls this in its loop; what it raises ends the job."""

    progress: ClassVar[Progress | None] = None
    followed: ClassVar[Followed | None] = None
    pace: ClassVar[PollInterval] = PollInterval()
    growing: ClassVar[LocalAutoscaler | None] = None
    aloud: ClassVar[Aloud] = Aloud()
    num_gpus: ClassVar[float] = 0.0
    """Of one replica."""
    lost_before: ClassVar[frozenset[str]] = frozenset()
    """Nodes that were lost when the job began."""

    def on_execution_step(self, executor: Any) -> None:
        """Let those who watch have their turn."""
        forget_blocks(executor)
        if self.progress and self.followed:
            now = time.monotonic()
            self.progress.occupancy.see(now, workers_now(executor))
            self.progress.step(lambda: self.status_aloud(executor, now))
            if self.growing:
                self.growing.look(executor, self.progress.predicted, self.progress.total, now)
            self.pace.follow(executor, is_predicting=self.progress.predicted > 0)
            self.followed.check()

    def status_aloud(self, executor: Any, now: float) -> JobStatus:
        """Where the job stands; what it waits for long stands in its log too."""
        found = self.status(executor, now)
        self.aloud.hear(found.waits_for, now)
        return found

    def status(self, executor: Any, now: float) -> JobStatus:
        """Where the job stands; where nothing moves, it may have lost a node that it needs.

        It goes on where another one comes.

        Raises:
            NoProgress: it can go on in another attempt only, or nobody follows it who would say so.
        """
        found = status_of(executor)
        assert self.progress
        job, still = self.progress.job, now - self.progress.moved
        if not is_own_machine(job.spec):
            self.progress.occupancy.grow(now, nodes_now)
        refuse_standstill(job, found, still)
        if found.waits_for or still < STILL_SECONDS:
            return found
        nodes = nodes_now(job.avoid)
        replicas, lost = replicas_now(executor), nodes_lost() - self.lost_before
        # What lay there is to be read again, of which Ray's executor knows nothing.
        replicas = replace(replicas, is_fed=replicas.is_fed or bool(lost))
        refuse_without_room(job, self.num_gpus, nodes, replicas, still)
        asked = crowding(job.spec, nodes, job.stages)
        return replace(found, waits_for=asked and f"cores beside the replicas: {asked}")


def refuse_standstill(job: Job, now: JobStatus, still_seconds: float) -> None:
    """See that rows move, where nobody may look from outside.

    Args:
        job: what to do.
        now: where it stands.
        still_seconds: for how long no row has moved.

    Raises:
        NoProgress: for so long that whoever follows it would have ended it.
    """
    if still_seconds > max(job.spec.timeouts.no_progress_seconds, LOAD_SECONDS) + LATER_SECONDS:
        raise NoProgress(f"no row has moved for {still_seconds:.0f} s").locate(
            now.works_at or STAGES[-1]
        )


def forget_blocks(executor: Any) -> None:
    """Let go of Ray's statistics of each block that is made, for a summary that nobody reads."""
    for operator in executor._topology:
        if isinstance(operator, MapOperator):
            operator._output_blocks_stats.clear()
