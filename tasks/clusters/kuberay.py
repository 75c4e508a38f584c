"""A Ray cluster of its own for each run, made by KubeRay on Kubernetes.

Its name is derived from the run's id: a run that goes on, in whichever process, finds the one
that is there. It is deleted when the run ends. KubeRay gives a RayCluster no time to live, so
that of a run whose process died rests on three things: the job stops itself when nobody follows
it; the autoscaler then takes the idle workers away, and with them the GPUs; and the reaper in
deployments/cluster deletes what has not been renewed in time.

Tested against a stand-in for the Kubernetes API and a real Ray; on no real Kubernetes.
"""

import logging
import time
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version

from tasks.clusters.kuberay_api import KubeApi
from tasks.clusters.kuberay_manifest import (
    Manifest,
    expiry,
    is_going,
    is_ours,
    load_manifest,
    name_of,
    run_manifest,
    state_of,
    token_secret,
    was_ready,
)
from tasks.clusters.ray_api import RayApi
from tasks.clusters.ray_jobs import RayJob, RayJobs, submitted
from tasks.errors import BatchInferenceError, InvalidSpec, JobLost, RunStopped, Unreachable
from tasks.kinds.clusters import KubeRayCluster
from tasks.kinds.extras import require
from tasks.ray_job.follower_heartbeat import STOPPED
from tasks.ray_job.job import Job

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 2.0
RENEW_EVERY_SECONDS = 60.0
RELEASE_TRIES, RELEASE_EVERY_SECONDS = 3, 1.0


@dataclass
class KubeRay:
    """Makes a cluster for each run, sends jobs there as to any other, deletes it in the end."""

    cluster: KubeRayCluster
    renewed: float = field(default=float("-inf"), repr=False)
    refused_since: float | None = field(default=None, repr=False)

    @cached_property
    def api(self) -> KubeApi:
        """Kubernetes."""
        return KubeApi(self.cluster.namespace, self.cluster.context)

    def start(self, job: Job) -> RayJob:
        """Submit the job, once there is a cluster that takes it.

        Raises:
            InvalidSpec: Kubernetes refuses the manifest, or the cluster is not ready in time.
            JobLost: the cluster was deleted while it started.
            RunStopped: and that by somebody who stopped the job.
            Unreachable: Kubernetes or the cluster does not answer.
        """
        try:
            return self.awaited(job.name_of_run).start(job)
        except JobLost:
            if job.storage.stat(job.stopped_file):
                raise RunStopped(STOPPED) from None
            raise

    def attach(self, job: Job) -> RayJob | None:
        """The job, if its cluster is there and it waits or runs."""
        jobs = self.jobs_beside(job)
        return jobs.attach(job) if jobs else None

    def was_started(self, job: Job) -> bool:
        """Whether it has been submitted, to the cluster that is there or to one before it."""
        jobs = self.jobs_beside(job)
        return jobs.was_started(job) if jobs else job.storage.stat(submitted(job)) is not None

    def remembers(self, job: Job) -> bool:
        """Whether the run's cluster, where there is one, knows a job of that name that is over."""
        jobs = self.jobs_beside(job)
        return jobs is not None and jobs.remembers(job)

    def renew(self, run_id: str) -> None:
        """Put the cluster's expiry off; called often, asks now and then."""
        now, ttl = time.monotonic(), self.cluster.ttl_seconds
        if now - self.renewed < min(RENEW_EVERY_SECONDS, ttl / 4):
            return
        self.renewed = now
        try:
            if (found := self.api.find_and_time(name_of(run_id))) is not None:
                self.api.annotate(name_of(run_id), expiry(ttl, found[1]))
            self.refused_since = None
        except BatchInferenceError as error:  # the next call asks again, long before it expires
            self.refused_since = self.refused_since or now
            if now - self.refused_since >= ttl / 4:
                said = "cannot extend the life of %s, so the reaper deletes it after %g s: %s"
                logger.warning(said, name_of(run_id), ttl, error)

    def release(self, run_id: str) -> None:
        """Delete the run's cluster, where there is one; Kubernetes sees to the rest.

        Raises:
            Unreachable: Kubernetes does not answer; the reaper deletes it in time.
        """
        for left in reversed(range(RELEASE_TRIES)):
            try:
                found = self.api.find(name_of(run_id))
                if found is not None and is_ours(found) and not is_going(found):
                    self.api.delete(found)
                return
            except Unreachable:
                if not left:
                    raise
                time.sleep(RELEASE_EVERY_SECONDS)

    def check(self) -> str:
        """See that Kubernetes answers, knows RayClusters, and would take ours; make nothing.

        Raises:
            InvalidSpec: its client is not installed, or it is of another Ray than ours, or is
                refused.
            Unreachable: Kubernetes does not answer, or does not let us.
        """
        require("cluster.kind", self.cluster.kind, "kubernetes", "kuberay", where="here")
        ours = version("ray")
        theirs = str(load_manifest(self.cluster)["spec"].get("rayVersion", ours))
        if ours.split(".")[:2] != theirs.split(".")[:2]:
            raise InvalidSpec.at(
                "cluster.manifest",
                theirs,
                f"is its rayVersion, but this project needs {ours}: set that, and an image with "
                "it for every group, or in cluster.image",
            )
        self.api.create(run_manifest(self.cluster, "check"), dry_run=True)
        where = f"{self.cluster.namespace}, where the reaper must run"
        return f"KubeRay would make a cluster of Ray {theirs} in {where}"

    def awaited(self, run_id: str) -> RayJobs:
        """The run's cluster, made unless it is there, as soon as its head takes jobs.

        Raises:
            InvalidSpec: it takes none in time; another attempt would wait as long once more.
            JobLost: it was deleted while it started.
            Unreachable: Kubernetes does not answer.
        """
        until = time.monotonic() + self.cluster.ready_seconds
        self.make(run_id, until)
        self.renew(run_id)  # by Kubernetes' clock, which ours may be behind by more than its life
        while True:
            found = None
            try:
                found = self.api.find(name_of(run_id))
                return self.taking_jobs(run_id, found)
            except Unreachable as error:
                if time.monotonic() >= until:
                    if found is None:
                        raise  # it is Kubernetes that does not answer: nobody can say how it is
                    raise self.late(run_id, error.message) from None
            self.renew(run_id)
            time.sleep(LOOK_EVERY_SECONDS)

    def make(self, run_id: str, until: float) -> None:
        """Make the run's cluster unless it is there; one that is going has to be gone first.

        Raises:
            InvalidSpec: Kubernetes refuses it, or what is there is not gone in time, or not ours.
            Unreachable: Kubernetes does not answer.
        """
        name = name_of(run_id)
        while (found := self.api.find(name)) is not None and is_going(found):
            if time.monotonic() >= until:
                raise self.late(run_id, "an earlier one is still being deleted")
            time.sleep(LOOK_EVERY_SECONDS)
        if found is None:
            self.api.create(run_manifest(self.cluster, run_id))
        elif not is_ours(found):
            raise InvalidSpec.at(
                "cluster.namespace",
                self.cluster.namespace,
                f"has a RayCluster {name} that this project did not make: delete or rename it, or "
                "use another namespace",
            )

    def late(self, run_id: str, cause: str) -> InvalidSpec:
        """What to raise when the cluster's time to start is over."""
        return InvalidSpec.at(
            "cluster.ready_seconds",
            self.cluster.ready_seconds,
            f"seconds were not enough for {name_of(run_id)} to accept jobs: {cause}; see `kubectl "
            f"-n {self.cluster.namespace} get events` and fix the cause, or wait longer",
        )

    def taking_jobs(self, run_id: str, found: Manifest | None) -> RayJobs:
        """The run's cluster as it was found, if its head takes jobs.

        Raises:
            JobLost: it was deleted; whoever did so does not want it made again.
            Unreachable: its head does not take jobs yet.
        """
        if found is None or is_going(found):
            raise JobLost(f"cluster: {name_of(run_id)} was deleted while it started")
        if not was_ready(found):
            raise Unreachable(state_of(found))
        jobs = self.jobs(found)
        # The agent that takes jobs starts later than the dashboard.
        jobs.api.get("/api/jobs/")
        return jobs

    def jobs_beside(self, job: Job) -> RayJobs | None:
        """The Jobs API of the job's cluster; None where there is none that has taken jobs."""
        found = self.api.find(name_of(job.name_of_run))
        if found is None or is_going(found) or not was_ready(found):
            return None
        return self.jobs(found)

    def jobs(self, found: Manifest) -> RayJobs:
        """The Jobs API of a cluster, with its token."""
        name, secret = found["metadata"]["name"], token_secret(found)
        address = self.cluster.address.format(name=name, namespace=self.cluster.namespace)
        token = {"Authorization": f"Bearer {self.api.token(secret)}"} if secret else {}
        return RayJobs(RayApi(address.rstrip("/"), token), self.cluster.python)
