"""What Ray's executor and tables say of a job: what works, by whom, and what is waited for."""

from dataclasses import dataclass
from typing import Any

import ray
from ray._private.state import actors
from ray.data._internal.execution.operators.actor_pool_map_operator import ActorPoolMapOperator

from tasks.counted import counted
from tasks.machine import GIB
from tasks.ray_job.counts import STAGES
from tasks.ray_job.lost_room import Replicas
from tasks.ray_job.occupancy import StageWorkers
from tasks.ray_job.progress import JobStatus

ALOUD_SECONDS = 30.0


@dataclass
class Aloud:
    """Says in the job's log what has been waited for for a while."""

    waits_for: str | None = None
    since: float = 0.0
    is_said: bool = False

    def hear(self, waits_for: str | None, now: float) -> None:
        """Take what a job waits for now; each thing is said once."""
        if waits_for != self.waits_for:
            self.waits_for, self.since, self.is_said = waits_for, now, False
        if waits_for and not self.is_said and now - self.since >= ALOUD_SECONDS:
            self.is_said = True
            print(f"the job waits for {waits_for}", flush=True)


def status_of(executor: Any) -> JobStatus:
    """Where the job stands: which stage works, and what it waits for."""
    works_at, held = None, held_now(executor)
    for operator in executor._topology:  # from the first to the last
        if operator.num_active_tasks():
            works_at = stage_of(operator.name)
        if isinstance(operator, ActorPoolMapOperator):
            replicas = operator.get_actor_info()
            awaited = replicas.pending + replicas.restarting
            if replicas.running == 0 and awaited:
                return status_without_replicas(operator, awaited, held)
    return JobStatus(works_at, None, *held)


def status_without_replicas(
    operator: ActorPoolMapOperator, awaited: int, held: tuple[float, float]
) -> JobStatus:
    """Where a job stands that has none to predict with yet, or no more."""
    if loading := num_placed(operator):
        waits_for = f"{counted(loading, 'replica')} of infer to load the model"
        return JobStatus("infer", waits_for, *held, is_loading=True)
    asked = operator.per_task_resource_allocation()
    needs = f"{asked.cpu:g} CPU, {asked.gpu:g} GPU, {asked.memory / GIB:.2g} GiB"
    return JobStatus(
        "infer", f"a place for {counted(awaited, 'replica')} of infer ({needs})", *held
    )


def replicas_now(executor: Any) -> Replicas:
    """How the replicas of a job are whose rows do not move; none where it has no model."""
    is_fed = False
    for operator in executor._topology:  # from the first to the last
        if isinstance(operator, ActorPoolMapOperator):
            begun, metrics = operator._actor_pool._running_actors, operator._metrics
            lost = {each._actor_id.hex() for each, state in begun.items() if state.is_restarting}
            return Replicas(
                begun=len(begun),
                unplaced=len(lost) - with_process(lost) if lost else 0,
                is_fed=is_fed,
                batch_seconds=metrics.block_generation_time
                / max(1, metrics.num_task_outputs_generated),
            )
        is_fed = is_fed or operator.num_active_tasks() > 0
    return Replicas()


def num_placed(operator: ActorPoolMapOperator) -> int:
    """Replicas that have a process, which loads the model or has it.

    Ray's pool does not tell those that load it from those for which there is no room.
    """
    pool = operator._actor_pool
    of_pool = {*pool._pending_actors.values(), *pool._running_actors}
    return with_process({each._actor_id.hex() for each in of_pool})


def with_process(replicas: set[str]) -> int:
    """How many of some replicas, by Ray's ids, have a process."""
    known = actors(job_id=ray.JobID(bytes.fromhex(ray.get_runtime_context().get_job_id())))
    # A node alone may be the one that is asked for room; a pid may be that of the former process.
    return sum(bool(each["Address"]["IPAddress"]) for id, each in known.items() if id in replicas)


def held_now(executor: Any) -> tuple[float, float]:
    """CPU cores and GPUs that the stages hold, replicas that load their model included.

    Whatever Ray would let the job have: where jobs share a cluster it may be less than they hold.
    """
    held = executor._resource_manager.get_global_usage()
    for operator in executor._topology:
        if isinstance(operator, ActorPoolMapOperator):
            replicas = operator.get_actor_info()
            if replicas.pending + replicas.restarting:
                there = replicas.running + replicas.pending + replicas.restarting
                absent = max(0, there - num_placed(operator))
                held = held.subtract(operator.per_task_resource_allocation().scale(absent))
    return held.cpu, held.gpu


def stage_of(operator: str) -> str:
    """The stage that one of Ray's operators is named after."""
    names = (stage for stage in reversed(STAGES) if stage in operator.lower())
    return next(names, STAGES[0])


def workers_now(executor: Any) -> dict[str, StageWorkers]:
    """Each stage that is not done; the stages of operators that Ray has fused see the same.

    Called many times a second: it only looks at what the executor has at hand.
    """
    return {
        stage: workers_of(operator, state)
        for operator, state in executor._topology.items()
        if not operator.has_execution_finished()
        for stage in STAGES
        if stage in operator.name.lower()
    }


def workers_of(operator: Any, state: Any) -> StageWorkers:
    """One operator's workers."""
    queued = state.total_enqueued_input_blocks()
    if not isinstance(operator, ActorPoolMapOperator):
        active = operator.num_active_tasks()
        return StageWorkers(active, active, queued)
    running = operator._actor_pool._running_actors
    replicas = {
        actor._actor_id.hex(): each.num_tasks_in_flight > 0 for actor, each in running.items()
    }
    return StageWorkers(sum(replicas.values()), len(replicas), queued, replicas)
