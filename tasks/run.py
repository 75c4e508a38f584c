"""What is left to do, and the attempt that does it."""

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tasks.attempt import FOLLOWED, Attempt
from tasks.clusters.choose import cluster_of, is_same_place, max_gpus_of, resources_on
from tasks.clusters.own_ray import joined
from tasks.clusters.running import Cluster, is_remembered
from tasks.clusters.stopping import stop_job
from tasks.errors import BatchInferenceError
from tasks.materializing_run import todo_materialized
from tasks.plan import PlannedRun
from tasks.protocol.acceptance import Gap
from tasks.protocol.layout import RunFolder
from tasks.protocol.parquet_parts import parquet_bytes
from tasks.protocol.storage import FsspecStorage
from tasks.publishing.rejections import excess
from tasks.ray_job.as_planned import refuse_other_code
from tasks.ray_job.follower_heartbeat import leave_sign, refuse_if_stopped
from tasks.ray_job.job import Job, stored_job
from tasks.ray_job.result import failure
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import until_reachable

logger = logging.getLogger(__name__)

SHOWN = 2
"""Attempts that are kept for whoever shows progress: of a run that is cut, the last of each job."""


def left_to_do(planned: PlannedRun, *, tried: bool) -> Gap:
    """What the next attempt has to do; nothing where the run can be published or must be held.

    Rows that an earlier run's attempt set aside are tried again when there is anything else to
    do, or when they are too many to publish.
    """
    accepted = planned.accepted()
    gap = planned.gap(accepted, retry_rejected=False)
    if gap or (not tried and excess(planned, accepted)):
        gap = planned.gap(accepted, retry_rejected=True)
    return replace(gap, schemas=len(planned.storage.list(planned.run.schemas)))


def next_attempt(
    planned: PlannedRun,
    gap: Gap,
    tell: Callable[[str], None] = print,
    after: Attempt | None = None,
    warn: Callable[[str], None] = print,
) -> Attempt:
    """The attempt that still runs or was never started, or a new one on the gap.

    Args:
        planned: the run.
        gap: what is left of it.
        tell: where the job's log goes.
        after: the attempt that was followed last.
        warn: where is said what is waited for in vain.

    Raises:
        OutputHeld: somebody has given the run up.
        RunStopped: somebody has left word, since this process took the run up, that there is to be
            no other.
        InvalidSpec: the user's code has changed since the run was planned.
        Unreachable: the cluster has not answered for too long.
    """
    planned.hold()
    planned.refuse_given_up()
    cluster = cluster_of(planned.spec.cluster)
    job_files = attempts_in(planned.storage, planned.run)
    job = stored_job(planned.storage, job_files[-1]) if job_files else None
    if after is not None:
        refuse_if_stopped(after.job)
        if job is not None and job.run_id != after.job.run_id:
            job.storage.delete(job.stopped_file)  # of a cut run, which goes on with its other job
    if job is None or not is_wanted(job, planned, cluster, after, warn):
        refuse_other_code(planned.spec, planned.plan.pins["fingerprints"]["code"])
        number = number_of(job_files[-1]) + 1 if job_files else 1
        job = new_job(planned, gap, number, nodes_left_out(after))
    if after is not None:  # who left word until now has not seen this one, or seen it cleared
        refuse_if_stopped(after.job)
    attempt = Attempt(job, cluster, tell, planned.hold, warn=warn)
    FOLLOWED.append(attempt)
    del FOLLOWED[:-SHOWN]  # a process may follow hundreds of runs
    return attempt


def forget_old_word(planned: PlannedRun) -> None:
    """Clear word that the run is to stop, left before this process took it up: that is over.

    What is left from now on is meant for this process.
    """
    if job := last_job(planned.storage, planned.run):
        job.storage.delete(job.stopped_file)


def is_wanted(
    job: Job,
    planned: PlannedRun,
    cluster: Cluster,
    after: Attempt | None,
    warn: Callable[[str], None],
) -> bool:
    """Whether the last attempt's job is to be followed; one that is not is not left running.

    One that has left its result and still lives is stopped: what it may say yet is of the spec as
    it was. A cluster that does not answer is asked again, for no second job may start beside one
    that may still run; but one in which nothing moves is stopped. One in another place than the
    spec now says is told to stop, and where nobody answers there, stops itself.
    """
    if not is_same_place(job.spec.cluster, planned.spec.cluster):
        stop_elsewhere(job)
        return False

    def was_over() -> bool:
        refuse_if_stopped(job)  # whoever stops it may reach its cluster as little
        if planned.storage.stat(job.result_file):
            stop_if_alive(job, cluster)
            return True
        if running := cluster.attach(job):
            if after is None or not after.has_stalled or after.job.id != job.id:
                return False
            running.stop()  # once more, and should it move again, it finds that nobody follows
            leave_sign(job, has_left=True)
            return True
        return cluster.was_started(job) or not is_as_asked(job, planned)

    if until_reachable(was_over, planned.spec.timeouts.unreachable_seconds, warn):
        return False
    if job.plan != planned.plan.digest:
        stop_if_alive(job, cluster)  # its inputs are not what they were
        return False
    return True


def is_as_asked(job: Job, planned: PlannedRun) -> bool:
    """Whether a job that was not started is what would be stored for it today.

    What kept it from starting may be mended by now: resources, a manifest, a folder of code.
    """
    stored, today = (each.as_json() for each in (job.spec, spec_of_job(planned)))
    limit = max_gpus_of(planned.spec.cluster)  # that of a block is not in the spec
    return stored == today and (job.max_gpus, job.profile) == (limit, planned.options.profile)


def stop_elsewhere(job: Job) -> None:
    """Stop a job where it was started."""
    if job.storage.stat(job.result_file) is None:
        try:
            stop_job(job)
        except BatchInferenceError as error:
            logger.warning(
                "job %s, on another cluster, could not be stopped and will end itself: %s",
                job.id,
                error,
            )


def stop_if_alive(job: Job, cluster: Cluster) -> None:
    """Stop a job of which nothing more is wanted."""
    running = cluster.attach(job)
    if running:
        running.stop()


def nodes_left_out(after: Attempt | None) -> tuple[str, ...]:
    """Nodes, by Ray's ids, on which attempts that were followed here could not set up a stage."""
    if after is None:
        return ()
    error = after.last.result and failure(after.last.result)
    node = (error.node,) if error and error.node else ()
    return tuple(dict.fromkeys((*after.job.avoid, *node)))


def new_job(planned: PlannedRun, gap: Gap, attempt: int, avoid: tuple[str, ...] = ()) -> Job:
    """A job on the gap, stored for its driver.

    Args:
        planned: the run.
        gap: what is left of it.
        attempt: its number, or a later one where the cluster remembers a job of that.
        avoid: Ray's ids of nodes to leave out, where others have room.
    """
    todo = todo_of(planned, gap)
    job = Job(
        spec=spec_of_job(planned),
        run_id=planned.run.run_id,
        attempt=attempt,
        plan=planned.plan.digest,
        pins=planned.plan.pins,
        num_shards=len(todo),
        todo_bytes=pc.sum(todo["size"]).as_py() or 0,
        todo_rows=(pc.sum(todo["rows"]).as_py() or 0) if planned.is_cut else gap.rows,
        todo_name=uuid.uuid4().hex,
        max_gpus=max_gpus_of(planned.spec.cluster),
        stages=planned.stages,
        profile=planned.options.profile,
        avoid=avoid,
        planned_on=planned.planned_on if planned.spec.model.writes_dates else "",
        run_name=planned.name,
        timed_inputs=planned.options.timed_inputs,
    )
    cluster = cluster_of(planned.spec.cluster)
    while is_remembered(cluster, job):
        job = replace(job, attempt=job.attempt + 1)
    planned.storage.write(job.todo_file, parquet_bytes(todo))
    job.save()
    return job


def spec_of_job(planned: PlannedRun) -> BatchInferenceSpec:
    """The spec, with what is settled before a job starts."""
    given = planned.spec
    resolved = {
        "model": planned.pinned_model,
        "resources": resources_on(given),
        "cluster": joined(given.cluster),
    }
    return given.model_copy(update=resolved)


def todo_of(planned: PlannedRun, gap: Gap) -> pa.Table:
    """What a job is to read: shards of the source, or what was kept of them."""
    return todo_materialized(planned, gap) if planned.is_cut else gap.todo(planned.plan)


def last_job(storage: FsspecStorage, run: RunFolder) -> Job | None:
    """The job of a run's last attempt, where this version can read it."""
    job_files = attempts_in(storage, run)
    return stored_job(storage, job_files[-1]) if job_files else None


def attempts_in(storage: FsspecStorage, run: RunFolder) -> list[str]:
    """Job files of a run's attempts, in order."""
    stats = storage.list(f"{run.path}/attempts")
    files = [stat.path for stat in stats if stat.path.endswith("/job.json")]
    return sorted(files, key=number_of)


def number_of(job_file: str) -> int:
    """The attempt that a job file is of."""
    return int(job_file.split("/")[-2])
