"""Attempt after attempt, each with its stages' tasks, until nothing is left to do."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from prefect import get_run_logger
from prefect.futures import wait

from flows.at_work import AtWork, end_cluster
from flows.headway import Headway
from flows.planning import plan_run
from flows.stage_tasks import run_stages
from tasks.attempt import Attempt
from tasks.counted import counted
from tasks.errors import (
    BatchInferenceError,
    ErrorBudgetExceeded,
    InputChanged,
    RowsMissing,
    RunStopped,
)
from tasks.lineage import publish_run
from tasks.materializing_run import MaterializingRun, kept_at, plan_materializing_run
from tasks.plan import PlannedRun
from tasks.protocol.acceptance import Gap
from tasks.publishing.rejections import COMPUTES, with_rows, words_in
from tasks.ray_job.counts import BEFORE_CUT
from tasks.reporting.addresses import url_on
from tasks.run import forget_old_word, left_to_do, next_attempt
from tasks.stages import skip_stage
from tasks.timeouts import Deadline, backoff_seconds, storage_of_output, until_reachable
from tasks.verifying.sample import SampledRun

T = TypeVar("T")


def run_and_publish(at_work: AtWork, deadline: Deadline) -> tuple[PlannedRun, int, int | None]:
    """Run what is left to do and publish the run.

    Args:
        at_work: on the run.
        deadline: when it has to be done.

    Returns:
        The run, as `run_attempts` does, the attempts it took, and the output's version; None where
        all that was new has gone meanwhile.

    Raises:
        BatchInferenceError: as `run_attempts` and `publish_run`.
    """
    go_on_with = at_work.go_on_with
    planned, tried, attempt = run_attempts(at_work.planned, deadline, go_on_with=go_on_with)
    if planned.nothing_to_do:
        return planned, tried, None
    try:
        return planned, tried, publish_run(planned)
    except RowsMissing as error:
        # A writer that was thought dead has stored a record, which counts before later ones.
        get_run_logger().warning("publishing failed, another attempt follows: %s", error)
    planned, more, _ = run_attempts(planned, deadline, attempt, go_on_with)
    return planned, tried + more, publish_run(planned)


def materialize_rows(
    planned: PlannedRun,
    deadline: Deadline,
    after: Attempt | None,
    go_on_with: Callable[[PlannedRun], None],
) -> tuple[PlannedRun, int, Attempt | None]:
    """The first job of a run that is cut, where not all of its rows are kept already.

    Args:
        planned: the run.
        deadline: when it has to be done.
        after: the attempt before; None where there was none.
        go_on_with: as `run_attempts` takes it.

    Returns:
        As `run_attempts`.
    """
    patiently(planned, deadline, planned.hold)
    tried, attempt = 0, after
    first = patiently(planned, deadline, lambda: plan_materializing_run(planned))
    if first is not None:
        get_run_logger().info("rows are kept in %s.state", first.spec.sink.path)
        of_first = AtWork(first)

        def go_on_with_both(anew: PlannedRun) -> None:
            of_first.go_on_with(anew)
            assert isinstance(anew, MaterializingRun)
            go_on_with(anew.main)

        try:
            last, tried, attempt = run_attempts(first, deadline, after, go_on_with_both)
        finally:
            end_cluster(of_first.planned)
        assert isinstance(last, MaterializingRun)
        planned = last.main
    else:
        log = get_run_logger()
        log.info("rows are taken from %s.state, as other jobs kept them", kept_at(planned))
    if attempt is None:
        wait([skip_stage.submit(stage) for stage in BEFORE_CUT])
    return planned, tried, attempt


def run_attempts(
    planned: PlannedRun,
    deadline: Deadline,
    attempt: Attempt | None = None,
    go_on_with: Callable[[PlannedRun], None] = lambda _: None,
) -> tuple[PlannedRun, int, Attempt | None]:
    """Attempt after attempt until the records cover the plan; of a run that is cut, of both jobs.

    Args:
        planned: the run, or the first job's of one that is cut.
        deadline: when it has to be done.
        attempt: the one before.
        go_on_with: is told of the run as it is planned anew.

    Returns:
        The run, planned anew where an input changed meanwhile, how many attempts it took, and the
        last of them.

    Raises:
        BatchInferenceError: trying again cannot help, or has been tried often enough.
    """
    headway, before = Headway(), 0
    if attempt is None:
        patiently(planned, deadline, lambda: forget_old_word(planned))
    gap = gap_left(planned, deadline, tried=False)
    while gap:
        if deadline.seconds_left() == 0:
            raise deadline.missed()
        if planned.is_cut:
            # Before each attempt: what was recorded may count no more, of rows that nobody keeps.
            planned, more, attempt = materialize_rows(planned, deadline, attempt, go_on_with)
            before += more
            if more and not (gap := gap_left(planned, deadline, tried=headway.tried > 0)):
                break
        todo = gap
        attempt, problem = run_attempt(planned, todo, deadline, attempt)
        # What an attempt that failed had to try again is still to be tried.
        gap = gap_left(planned, deadline, tried=problem is None)
        headway.note(todo, gap, problem)
        if gap and headway.failed >= planned.spec.retries.max_attempts:
            raise given_up(planned, gap, headway.tried, problem)
        if gap:
            await_next(headway, problem, deadline)
        if isinstance(problem, InputChanged):
            planned = planned_anew(planned)
            go_on_with(planned)
            gap = gap_left(planned, deadline, tried=True)
    return planned, before + headway.tried, attempt


def await_next(headway: Headway, problem: BatchInferenceError | None, deadline: Deadline) -> None:
    """Say that another attempt follows, and wait a while where the last one failed."""
    if problem is None:
        get_run_logger().info(
            "attempt %s left rows without a record, another follows", headway.tried
        )
        return
    get_run_logger().warning("attempt %s failed, another follows: %s", headway.tried, problem)
    time.sleep(deadline.within(backoff_seconds(headway.failed)))


def run_attempt(
    planned: PlannedRun, gap: Gap, deadline: Deadline, after: Attempt | None
) -> tuple[Attempt | None, BatchInferenceError | None]:
    """One attempt.

    Returns:
        It, or the one before where it did not come to one, and the error that another may not meet.

    Raises:
        BatchInferenceError: trying again cannot help.
    """
    attempt = after
    try:
        with storage_of_output():
            log = get_run_logger()
            attempt = next_attempt(planned, gap, log.info, after, log.warning)
        run_stages(attempt, deadline)
    except ErrorBudgetExceeded as error:
        raise with_rows(planned, error) from error
    except RunStopped:
        # Not by somebody who wants it to end: whoever publishes a run tells jobs taken for lost.
        if has_been_published(planned):
            return attempt, None
        raise
    except BatchInferenceError as error:
        if not error.can_retry:
            if error.stage in COMPUTES:
                error.hint = words_in(planned)
            raise
        return attempt, error
    return attempt, None


def has_been_published(planned: PlannedRun) -> bool:
    """Whether another process has published the run; not where the ledger does not answer."""
    with suppress(Exception):
        return main_of(planned).is_published()
    return False


def gap_left(planned: PlannedRun, deadline: Deadline, *, tried: bool) -> Gap:
    """What the next attempt has to do, as `left_to_do` has it.

    Raises:
        Unreachable: the output's storage has not answered for too long.
    """
    return patiently(planned, deadline, lambda: left_to_do(planned, tried=tried))


def patiently(planned: PlannedRun, deadline: Deadline, look: Callable[[], T]) -> T:
    """What a look into the output's storage finds, which may be away for a while.

    Raises:
        Unreachable: it has not answered for too long.
    """

    def ask() -> T:
        with storage_of_output():
            return look()

    seconds = deadline.within(planned.spec.timeouts.unreachable_seconds)
    return until_reachable(ask, seconds, get_run_logger().warning)


def given_up(
    planned: PlannedRun, gap: Gap, tried: int, problem: BatchInferenceError | None
) -> BatchInferenceError:
    """The last attempt's error; else that jobs ended well, and their records are not all there."""
    if problem is not None:
        problem.attempts = tried
        return problem
    rows = "rows" if gap.rows is None else counted(gap.rows, "row")
    first = planned.plan.shards["path"][int(gap.shards[0])].as_py()
    return RowsMissing(
        f"after {counted(tried, 'attempt')}, the last of them successful, {rows} in "
        f"{counted(len(gap.shards), 'shard')} still have no valid record, the first of {first}: "
        "check that file, the jobs' logs, and the records in "
        f"{url_on(planned.storage, planned.run.records)}; run again to predict what is missing"
    )


def planned_anew(planned: PlannedRun) -> PlannedRun:
    """The run, planned on what lies at the source now.

    Raises:
        InputChanged: it is one that predicts published rows again, which have changed.
    """
    if isinstance(planned, SampledRun):
        raise InputChanged("an input changed while it was read: verify again")
    own = main_of(planned)
    anew = plan_run(own.spec, own.options)
    if anew.run_key == own.run_key:  # attempts of this call are in it already
        anew = replace(anew, attempts_before=own.attempts_before)
    if not isinstance(planned, MaterializingRun):
        return anew
    return plan_materializing_run(anew) or replace(planned, main=anew)


def main_of(planned: PlannedRun) -> PlannedRun:
    """The run that is to be published."""
    return planned.main if isinstance(planned, MaterializingRun) else planned
