"""Jobs at work on an output: who they are, and how to stop them."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tasks.clusters.choose import cluster_of
from tasks.clusters.running import RunningJob
from tasks.clusters.stopping import stop_job
from tasks.errors import BatchInferenceError, InvalidSpec, Unreachable
from tasks.lease import Holder, holder_of, is_held_for
from tasks.ledgers import ledger_of
from tasks.outputs import first_job_of, output_of
from tasks.planning.unfinished import jobs_left, tell
from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.layout import RunFolder
from tasks.protocol.read_back import read_note
from tasks.ray_job.counts import BEFORE_CUT
from tasks.ray_job.follower_heartbeat import has_result
from tasks.ray_job.job import Job
from tasks.run import attempts_in, last_job, number_of
from tasks.spec import BatchInferenceSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Told:
    """Unfinished jobs of an output that have been told to stop."""

    stopped: list[Job]
    """They ran, and run no more."""
    unseen: list[Job]
    """Nobody has seen them run. One that does, as in another process, stops by itself. Those after
    which their run went on, or ended, are not among these."""
    ended: list[Job]
    """Somebody is about to make the next attempt, or a cut run's other job, or to publish: there
    will be none, and nothing is."""
    errors: list[BatchInferenceError]
    """Why some of these could not be looked for."""


def unfinished_jobs(spec: BatchInferenceSpec) -> list[Job]:
    """Jobs of unpublished runs that have left no result, alive or not; of cut runs both."""
    return jobs_left(spec, paths_of_runs(spec, published_runs(spec)))


def published_runs(spec: BatchInferenceSpec) -> set[str] | None:
    """Runs that the ledger of a spec's output names; None where it cannot be read, which is logged.

    That keeps no job from being stopped.
    """
    try:
        return ledger_of(spec).look().run_ids
    except Exception as error:
        logger.warning("cannot tell which runs are published: %s", error)
        return None


def paths_of_runs(spec: BatchInferenceSpec, published: set[str] | None) -> list[str]:
    """All that lies in the folders of an output's runs that are not published.

    Of years of published ones nothing is gone through: whoever has published a run has left word
    for those of its jobs that nobody has seen end.

    Args:
        spec: one with their output.
        published: those that are, where that is known.
    """
    storage, output = output_of(spec)
    published = published or set()
    left = [f"{output.runs}/{each}" for each in storage.folders(output.runs) - published]
    return [stat.path for stats in asked_at_once(storage.list, left) for stat in stats]


def live_jobs(spec: BatchInferenceSpec) -> list[tuple[Job, RunningJob]]:
    """Jobs at work on a spec's output, whoever started them: of each run the last.

    One whose cluster does not answer, or is no more, is passed over with a warning. Of those after
    which their run went on, perhaps hundreds that were killed, none is asked for.
    """
    found = []
    for job in last_of_each_run(unfinished_jobs(spec)):
        try:
            if running := cluster_of(job.spec.cluster).attach(job):
                found.append((job, running))
        except BatchInferenceError as error:
            logger.warning("cannot tell whether job %s runs: %s", job.id, error)
    return found


def last_of_each_run(jobs: list[Job]) -> list[Job]:
    """Of each run's jobs the last, which alone may be at work."""
    by_attempt = sorted(jobs, key=lambda job: job.attempt)
    return list({job.run_id: job for job in by_attempt}.values())


def tell_to_stop(spec: BatchInferenceSpec, flow_run: str | None = None) -> Told:
    """Stop the jobs at work on a spec's output; what they recorded stays good.

    One whose cluster is still being made is stopped before it starts. One whose cluster does not
    answer, or is no more, keeps none of the others. A run goes on only without jobs that have
    ended or been told to: of these, perhaps hundreds that were killed, no cluster is asked, and
    should one live all the same it finds word.

    Args:
        spec: one with their output.
        flow_run: only those that this flow run, or one that it has started, has followed last.
    """
    told, quiet = Told([], [], [], []), list[tuple[Job, list[BatchInferenceError]]]()
    published = published_runs(spec)
    paths = paths_of_runs(spec, published)
    jobs = jobs_left(spec, paths, told.errors)
    followed = asked_at_once(partial(is_followed_by, flow_run=flow_run), jobs)
    left = [job for job, is_its in zip(jobs, followed, strict=True) if is_its]
    last = last_of_each_run(left)
    for job in last:  # before all others: a storage that fails for one of these may keep no GPU
        try:
            if stop_job(job):
                told.stopped.append(job)
            else:
                quiet.append((job, []))
        except BatchInferenceError as error:
            quiet.append((job, [error]))
        except OSError as error:
            quiet.append((job, [Unreachable(f"job {job.id} cannot be told to stop: {error}")]))
    tell([job for job in left if job not in last])
    over = runs_over(spec, paths, published)
    for job, errors in quiet:
        if job.run_id not in over and not has_successor(job):
            told.unseen.append(job)
            told.errors.extend(errors)
    for job in between_attempts(spec, paths, over):
        if not is_followed_by(job, flow_run):
            continue
        job.storage.write(job.stopped_file, b"")
        told.ended.append(job)
    return told


def is_followed_by(job: Job, flow_run: str | None) -> bool:
    """Whether a job is a flow run's, or everybody's business."""
    return flow_run is None or is_held_for(job.storage, job.run, flow_run)


def has_successor(job: Job) -> bool:
    """Whether its run went on with another attempt: that one is the run's own, should it live."""
    return any(number_of(each) > job.attempt for each in attempts_in(job.storage, job.run))


def runs_over(spec: BatchInferenceSpec, paths: list[str], published: set[str] | None) -> set[str]:
    """Runs that were published or given up, and the first jobs' where these were cut.

    Args:
        spec: one with their output.
        paths: what lies in the folders of the output's runs.
        published: those that are; None: the ledger is asked once more, and what it raises told.
    """
    storage, _ = output_of(spec)
    over = set(ledger_of(spec).look().run_ids if published is None else published)
    over |= {run_of(path) for path in paths if path.endswith("/abandoned")}
    pointers = [path for path in paths if path.endswith("/prepared.json") and run_of(path) in over]
    for path in pointers:
        with suppress(InvalidSpec):  # a damaged one, of a run of which nothing more is to come
            over.add(first_job_of(spec, storage, path)[1].run_id)
    return over


def between_attempts(spec: BatchInferenceSpec, paths: list[str], over: set[str]) -> Iterator[Job]:
    """Last jobs of runs that somebody works on, where these have ended and something is to come.

    Args:
        spec: one with their output.
        paths: what lies in the folders of the output's runs.
        over: runs of which nothing more is to come.
    """
    storage, _ = output_of(spec)
    for run, holder in held_runs(spec, paths, over, or_own=True):
        places = [(storage, run)]
        if run.prepared in paths:
            places.append(first_job_of(spec, storage, run.prepared))
        jobs = [job for place, own in places if (job := last_job(place, own))]
        last = max(jobs, key=followed_at, default=None)
        for job in jobs:
            state = (read_note(job.storage, job.result_file) or {}).get("state")
            if state is None and has_result(job):
                state = "failed"  # it is damaged, and its run makes another attempt
            # Whoever has followed the first job of a cut run makes the other one.
            goes_on = job.stages != BEFORE_CUT or was_followed_by(holder, job)
            if state == "failed" or (state and job is last and goes_on):
                yield job


def held_runs(
    spec: BatchInferenceSpec, paths: list[str], over: set[str], *, or_own: bool = False
) -> Iterator[tuple[RunFolder, Holder]]:
    """Runs that another process works on, with or without a job that a cluster knows, and which.

    Args:
        spec: one with their output.
        paths: what lies in the folders of the output's runs.
        over: runs of which nothing more is to come.
        or_own: whether this process may be it too, as where it has word for a run of its own.
    """
    storage, output = output_of(spec)
    for run_id in sorted({run_of(path) for path in paths if path.endswith("/lease.json")} - over):
        run = output.run(run_id)
        if holder := holder_of(storage, run, or_own=or_own):
            yield run, holder


def runs_at_work(spec: BatchInferenceSpec) -> dict[str, str]:
    """Ids of an output's runs that are at work, and where."""
    published = published_runs(spec)
    paths = paths_of_runs(spec, published)
    held = held_runs(spec, paths, runs_over(spec, paths, published))
    return {run.run_id: str(holder) for run, holder in held}


def followed_at(job: Job) -> float:
    """When somebody followed a job last, on its storage's clock; long ago where nobody has."""
    return job.storage.modified(job.followed_file) or 0.0


def was_followed_by(holder: Holder, job: Job) -> bool:
    """Whether a process is the one that followed a job last, and none before it with its pid."""
    sign = read_note(job.storage, job.followed_file) or {}
    is_its = (sign.get("host"), sign.get("pid")) == (holder.host, holder.pid)
    return is_its and float(sign.get("at", 0.0)) >= holder.started  # both by that machine's clock


def run_of(path: str) -> str:
    """The run in whose folder a file lies."""
    return path.split("/")[-2]


def stop_jobs(spec: BatchInferenceSpec, flow_run: str | None = None) -> list[Job]:
    """The same, for those who take trouble with any of the jobs as an error.

    Args:
        spec: one with their output.
        flow_run: as `tell_to_stop` takes it.

    Returns:
        Those that ran.

    Raises:
        BatchInferenceError: what the first one that could not be stopped raised, after the others.
    """
    told = tell_to_stop(spec, flow_run)
    if told.errors:
        raise told.errors[0]
    return told.stopped
