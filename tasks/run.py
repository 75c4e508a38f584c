"""What is left to do, and the attempt that does it."""

import uuid

import pyarrow as pa

from tasks.attempt import FOLLOWED, Attempt
from tasks.clusters.choose import cluster_of, max_gpus_of, resources_on
from tasks.clusters.own_ray import joined
from tasks.lease import hold
from tasks.patience import until_reachable
from tasks.plan import PlannedRun
from tasks.prepared import todo_prepared
from tasks.protocol.acceptance import Gap
from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import parquet_bytes
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.job import Job, stored_job


def left_to_do(planned: PlannedRun, *, tried: bool) -> Gap:
    """What the next attempt has to do; nothing where the run can be published or must be held.

    Rows that an earlier run's attempt set aside are tried again when there is anything else to
    do, or when they are too many to publish.
    """
    accepted = planned.accepted()
    gap = planned.gap(accepted, retry_rejected=False)
    total = len(accepted.settled) + len(accepted.rejected)
    too_many = len(accepted.rejected) > planned.spec.errors.max_rejected_fraction * total
    if not gap and (tried or not too_many):
        return gap
    return planned.gap(accepted, retry_rejected=True)


def next_attempt(planned: PlannedRun, gap: Gap) -> Attempt:
    """The attempt that still runs or was never started, or a new one on the gap.

    Raises:
        Unreachable: the cluster has not answered for too long.
    """
    hold(planned.storage, planned.run)
    cluster = cluster_of(planned.spec.cluster)
    jobs = attempts_of(planned)
    job = stored_job(planned.storage, jobs[-1]) if jobs else None
    if job is None or is_over(planned, job):
        job = new_job(planned, gap, len(jobs) + 1)
    elif job.plan != planned.plan.digest:
        stop_if_alive(planned, job)  # its inputs are not what they were
        job = new_job(planned, gap, len(jobs) + 1)
    FOLLOWED.append(Attempt(job, cluster))
    return FOLLOWED[-1]


def is_over(planned: PlannedRun, job: Job) -> bool:
    """Whether a job has been started and runs no more.

    One that lives for a while with its result behind it is ended: what it has to say is of the
    spec as it was. Of a cluster that does not answer nobody can say: to start another job beside
    one that may still run is what must not happen.
    """
    cluster = cluster_of(planned.spec.cluster)

    def runs_no_more() -> bool:
        if planned.storage.stat(job.result):
            stop_if_alive(planned, job)
            return True
        return cluster.attach(job) is None and cluster.was_started(job)

    return until_reachable(runs_no_more, planned.spec.timeouts.unreachable_seconds)


def stop_if_alive(planned: PlannedRun, job: Job) -> None:
    """Stop a job of which nothing more is wanted."""
    running = cluster_of(planned.spec.cluster).attach(job)
    if running:
        running.stop()


def new_job(planned: PlannedRun, gap: Gap, attempt: int) -> Job:
    """A job on the gap, stored for its driver."""
    todo = todo_of(planned, gap)
    given = planned.spec
    resolved = {
        "model": planned.pinned_model,
        "resources": resources_on(given),
        "cluster": joined(given.cluster),
    }
    job = Job(
        spec=given.model_copy(update=resolved),
        run_id=planned.run.run_id,
        attempt=attempt,
        plan=planned.plan.digest,
        pins=planned.plan.pins,
        num_shards=len(todo),
        todo_bytes=sum(todo["size"].to_pylist()),
        todo_rows=sum(todo["rows"].to_pylist()) if planned.is_cut else gap.rows,
        todo_name=uuid.uuid4().hex,
        max_gpus=max_gpus_of(planned.spec.cluster),
        stages=planned.stages,
        profile=planned.options.profile,
    )
    planned.storage.write(job.todo, parquet_bytes(todo))
    job.save()
    return job


def todo_of(planned: PlannedRun, gap: Gap) -> pa.Table:
    """What a job is to read: shards of the source, or what was kept of them."""
    return todo_prepared(planned, gap) if planned.is_cut else gap.todo(planned.plan)


def attempts_of(planned: PlannedRun) -> list[str]:
    """Job files of the run's attempts, in order."""
    return attempts_in(planned.storage, planned.run)


def attempts_in(storage: FsspecStorage, run: RunFolder) -> list[str]:
    """Job files of a run's attempts, in order."""
    stats = storage.list(f"{run.path}/attempts")
    files = [stat.path for stat in stats if stat.path.endswith("/job.json")]
    return sorted(files, key=lambda path: int(path.split("/")[-2]))
