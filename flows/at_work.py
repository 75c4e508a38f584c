"""What a call is at: held while it lasts, reported where it fails, and let go of in the end."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Thread

from prefect import get_run_logger
from prefect.exceptions import Pause

from flows.ended_from_outside import told_as
from flows.server_away import await_server
from tasks.artifacts import shown_beside
from tasks.clusters.choose import release
from tasks.errors import BatchInferenceError
from tasks.lease import kept_held
from tasks.plan import PlannedRun
from tasks.report import report_failure, show_report

LAST_WORDS_SECONDS = 10.0
"""For the report of a run that is ended from outside, as by Ctrl-C: whoever does so waits."""


class AtWork:
    """Which run a call is at: another one where it was planned anew on an output that has grown."""

    def __init__(self, planned: PlannedRun) -> None:
        self.planned = planned

    def hold(self) -> None:
        """Say that this process works on it; where all inputs have gone there is no such run."""
        if not self.planned.nothing_to_do:
            self.planned.hold()

    def go_on_with(self, anew: PlannedRun) -> None:
        """Go on with the run as it is planned now; the one that it was, if another, is over.

        Args:
            anew: the run.
        """
        before, self.planned = self.planned, anew
        if anew.run_key != before.run_key:
            end_cluster(before)
            leave(before)


@contextmanager
def accounted_for(planned: PlannedRun, started: float, *, is_kept: bool = True) -> Iterator[AtWork]:
    """Whatever happens in the block: a failure is reported, and what was made for the run ended.

    While it lasts others see that somebody is at work on the run. What was made for it goes first:
    who ends a run from outside may soon do so by force.

    Args:
        planned: the run.
        started: when this call of it began, in seconds since the epoch.
        is_kept: whether its folder is there afterwards, and so the report in it.
    """
    at_work = AtWork(planned)
    try:
        try:
            with kept_held(at_work.hold):
                yield at_work
        finally:
            end_cluster(at_work.planned)
    except Exception as error:
        written = report_failure(at_work.planned, started, error)
        await_server()
        if written:
            show_report(at_work.planned)
        if is_kept:
            leave(at_work.planned)
            if isinstance(error, BatchInferenceError):
                error.report = written
        raise
    except Pause:  # it is to go on, in another process
        leave(at_work.planned)
        raise
    except BaseException as error:
        last_words = partial(leave_last_words, at_work.planned, started, told_as(error))
        shown_beside("the report", last_words).join(LAST_WORDS_SECONDS)
        if is_kept:
            leave(at_work.planned)
        raise


def leave(planned: PlannedRun) -> None:
    """Say that this process works no more on a run that is not published.

    Where the storage is away its silence says so, or its end.
    """

    def let_go() -> None:
        with suppress(Exception):
            planned.let_go()

    leaving = Thread(target=let_go, daemon=True)
    leaving.start()
    leaving.join(LAST_WORDS_SECONDS)


def leave_last_words(planned: PlannedRun, started: float, error: BaseException) -> None:
    """The report of a run that failed, in its folder and in Prefect."""
    if report_failure(planned, started, error):
        show_report(planned)


def end_cluster(planned: PlannedRun) -> None:
    """End what was made for a run's jobs alone."""
    if problem := release(planned.spec.cluster, planned.name):
        get_run_logger().warning(problem)
