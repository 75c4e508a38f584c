"""One attempt of a run: a job that is started or found running, and followed to its end."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tasks.clusters.choose import release
from tasks.clusters.running import Cluster, RunningJob, renew
from tasks.errors import RunStopped, Unreachable
from tasks.job_log import JobLog
from tasks.job_look import Look, as_stopped, lost
from tasks.kinds.clusters import KubeRayCluster
from tasks.ray_job.counts import STAGES
from tasks.ray_job.follower_heartbeat import STOPPED, leave_sign, refuse_if_stopped
from tasks.ray_job.job import LOAD_SECONDS, PIP_SECONDS, Job
from tasks.timeouts import Deadline, Stall, storage_of_output, until_reachable

POLL_SECONDS = (0.05, 0.5)
"""Between two looks at a job, at first and later: what takes a second should not wait for one."""
POLLS_PER_AGE = 25
"""A look comes a twenty-fifth of the job's age after the last one."""
SILENT_SECONDS = 30.0
"""A job of which nothing is heard for so long, from its cluster or its storage, counts as lost."""
MARK_EVERY_SECONDS = 10.0
HOLD_EVERY_SECONDS = 10.0
AWAY_SECONDS = 10.0
"""For so long the output's storage may not answer without a word."""
SLOW_SECONDS = 30.0
"""For so long a job may not have started without a word: a cluster may have to be made for it."""
FOLLOWED: "list[Attempt]" = []
"""Attempts that this process follows or has followed last, for whoever shows progress."""


@dataclass
class Attempt:
    """A job being followed by the tasks of its stages."""

    job: Job
    cluster: Cluster
    tell: Callable[[str], None] = print
    """Where the job's log goes."""
    hold: Callable[[], None] = lambda: None
    """Says that this process works on the run."""
    stopped: threading.Event = field(default_factory=threading.Event)
    running: RunningJob | None = None
    warn: Callable[[str], None] = print
    """Says what it waits for in vain: somebody may have to see to that."""

    def __post_init__(self) -> None:
        timeouts = self.job.spec.timeouts
        # Its driver's packages are installed before it can say a word.
        first_word = PIP_SECONDS if self.job.spec.environment.pip else 0.0
        self.stall = Stall(timeouts.no_progress_seconds, first_word, LOAD_SECONDS)
        self.unreachable_seconds = timeouts.unreachable_seconds
        self.log = JobLog()
        self.starting, self.looking = threading.Lock(), threading.Lock()
        self.last, self.looked_at, self.marked_at, self.held_at = Look(), 0.0, 0.0, 0.0
        self.begun = self.heard_at = self.answered_at = self.heeded_at = time.monotonic()
        self.is_away = self.is_slow = False
        """Whether it was said what does not answer, or that the job does not start."""
        self.is_asked_for = False
        """Whether a stage's task has begun, which starts the job."""
        self.has_stalled = False
        """Whether it was given up since nothing moved: its job is not to be followed again."""
        self.followed = set[str]()
        """Stages whose tasks have begun: Prefect may let only so many run at once."""
        self.drained = set[str]()
        """Stages whose tasks are done; for what a node has lost Ray may have them work again."""

    @property
    def poll_seconds(self) -> float:
        """How long to wait until the next look."""
        soonest, latest = POLL_SECONDS
        return min(latest, max(soonest, (time.monotonic() - self.begun) / POLLS_PER_AGE))

    def ensure_started(self) -> RunningJob:
        """Attach to the job or start it; whichever stage task comes first does so."""
        with self.starting:
            try:
                if self.running is None:
                    self.is_asked_for, self.is_slow, self.begun = True, False, time.monotonic()
                    self.running = until_reachable(
                        self.attach_or_start, self.unreachable_seconds, self.warn, self.stopped.wait
                    )
                    if self.stopped.is_set():  # nobody waits for it any more
                        self.running.stop()
                        release(self.job.spec.cluster, self.job.name_of_run)
                    self.tell(f"attempt {self.job.attempt} runs; see {self.running.where}")
                    self.begun = time.monotonic()
                    self.heard_at = self.answered_at = self.stall.since = self.begun
            except BaseException:
                if self.stopped.is_set():  # the flow has ended what there was before
                    release(self.job.spec.cluster, self.job.name_of_run)
                self.stopped.set()
                raise
            return self.running

    def attach_or_start(self) -> RunningJob:
        """Ask for the job once; of a submission whose reply is lost, the next question tells.

        Raises:
            RunStopped: the run was stopped meanwhile.
            Unreachable: its cluster does not answer.
        """
        if self.stopped.is_set():
            raise RunStopped("the run was stopped before its job began")
        try:
            with storage_of_output():
                # Whoever stops it meanwhile finds no job, and can only leave word.
                if self.job.storage.stat(self.job.stopped_file):
                    raise RunStopped(STOPPED)
                found = self.cluster.attach(self.job)
            self.is_away = False
            return found or self.cluster.start(self.job)
        except Unreachable as error:
            self.is_away = True
            self.tell(f"attempt {self.job.attempt} has not started yet: {error}")
            raise

    def await_stage(
        self, stage: str, deadline: Deadline, look: Callable[[], object] = lambda: None
    ) -> None:
        """Wait until a stage has something to show: rows, its end, or that of the attempt.

        Args:
            stage: to be reached.
            deadline: when the run has to be done.
            look: raises where the tasks of the stages before it have come to nothing.

        Raises:
            RunStopped: somebody has left word for a job that nobody has started yet.
            RunTimedOut: the run's time is up.
        """
        while not (self.stopped.is_set() or self.has_reached(stage)):
            look()
            self.heed_word()
            self.keep_hold()  # a cluster that is made for the run may take a while
            self.say_if_slow()
            if deadline.seconds_left() == 0:
                raise deadline.missed()
            self.stopped.wait(self.poll_seconds)

    def heed_word(self) -> None:
        """See that nobody has stopped a job that no task starts yet, and which nobody looks at."""
        if self.is_asked_for or time.monotonic() - self.heeded_at < MARK_EVERY_SECONDS:
            return
        self.heeded_at = time.monotonic()
        refuse_if_stopped(self.job)

    def say_if_slow(self) -> None:
        """Say, once, what is waited for where the job's cluster takes long to take it."""
        if self.is_slow or self.running or time.monotonic() - self.begun < SLOW_SECONDS:
            return
        if self.is_away:  # which is told, and the cluster may not have been asked yet
            return
        self.is_slow = True
        if not self.is_asked_for:
            self.warn(
                f"attempt {self.job.attempt} has not started yet: Prefect lets no task of its "
                "stages begin, for example because of a concurrency limit on a tag that the flow "
                "was called with"
            )
            return
        cluster = self.job.spec.cluster
        most = ""
        if isinstance(cluster, KubeRayCluster):
            most = f", which is made for the run: cluster.ready_seconds {cluster.ready_seconds:g}"
        self.warn(
            f"attempt {self.job.attempt} has not started yet: it waits for its cluster to take the "
            f"job (cluster.kind {cluster.kind}{most})"
        )

    def has_reached(self, stage: str) -> bool:
        """Whether a stage, or one after it, has begun; or the attempt is over or stalls."""
        if self.running is None:
            return False
        look = self.look()
        for name in STAGES[STAGES.index(stage) :]:
            counts = look.stage(name)
            if counts and (counts["started"] or counts["state"] == "done"):
                return True
        return self.stall.lasts(look.progress) or look.result is not None

    def look(self) -> Look:
        """How the job is; however many ask, its storage and cluster are asked now and then.

        Once it is stopped, as it was last: no sign is left of a run that is over.

        Raises:
            Unreachable: the output's storage has not answered for too long.
        """
        with self.looking:
            is_due = time.monotonic() - self.looked_at >= self.poll_seconds
            if self.running and is_due and not self.stopped.is_set():
                self.last = self.look_now(self.running)
                self.looked_at = time.monotonic()
            return self.last

    def look_now(self, running: RunningJob) -> Look:
        """Ask, and leave a sign that somebody follows."""
        self.keep_hold()
        self.leave_mark(running)
        self.log.forward(running, self.tell)
        try:
            with storage_of_output():
                look = Look.of(self.job)
                if look.result is None and self.is_lost(running, look):
                    time.sleep(POLL_SECONDS[-1])
                    look = Look.of(self.job)
                    if look.result is None:
                        look = Look(look.progress, lost(self.job, running))
                if look.result is not None:
                    self.log.forward(running, self.tell, now=True)
                    look = Look(look.progress, as_stopped(self.job, look.result))
        except Unreachable as error:
            silent_seconds = time.monotonic() - self.answered_at
            if silent_seconds > self.unreachable_seconds:
                raise
            if silent_seconds > AWAY_SECONDS and not self.is_away:
                self.is_away = True
                self.warn(f"{error}; trying for at most {self.unreachable_seconds:.0f} s")
            return self.last
        self.answered_at, self.is_away = time.monotonic(), False
        return look

    def is_lost(self, running: RunningJob, look: Look) -> bool:
        """Whether the job is gone without a result.

        While its cluster cannot be asked, what it writes shows that it lives.
        """
        alive = running.is_alive()
        if alive is None:  # to learn nothing may have taken a minute, in which the job went on
            look = Look.of(self.job)
        if alive or look.progress != self.last.progress:
            self.heard_at = time.monotonic()
        return alive is False or time.monotonic() - self.heard_at > SILENT_SECONDS

    def keep_hold(self) -> None:
        """Say again that this process works on the run, before others take it for gone."""
        if time.monotonic() - self.held_at < HOLD_EVERY_SECONDS:
            return
        self.held_at = time.monotonic()
        with suppress(OSError):  # a look finds out whether the storage answers
            self.hold()

    def leave_mark(self, running: RunningJob) -> None:
        """Say that somebody follows: a job that nobody follows stops itself.

        Whoever has stopped it on another machine could only say so: here it is ended.
        """
        every = min(MARK_EVERY_SECONDS, self.job.spec.timeouts.orphan_seconds / 4)
        if time.monotonic() - self.marked_at < every:
            return
        self.marked_at = time.monotonic()
        renew(self.cluster, self.job.name_of_run)
        try:
            leave_sign(self.job)
            is_stopped = self.job.storage.stat(self.job.stopped_file) is not None
        except OSError:
            return  # the next look finds out whether the storage answers
        if is_stopped:
            running.stop()

    def stop(self) -> None:
        """Stop following, and stop the job."""
        self.stopped.set()
        self.hold = lambda: None  # else the plan stays in memory as long as this process
        if self.running is not None:
            self.running.stop()
