"""What cases share: processes to fork from, a cluster, an S3 server behind a proxy."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from tasks.run_options import RunOptions
from tests.chaos.matrix.clusters import Clusters
from tests.chaos.processes import GONE, end_all
from tests.s3_server import CREDENTIALS, S3, running_s3
from tests.soak import orchestrator
from tests.soak.drawn import Case, Strike
from tests.soak.specs import Site
from tests.storage_faults.faulty_s3 import FaultyS3, faulty_s3

RUN_SECONDS = 240.0


@dataclass
class Run:
    """A process that does a run."""

    process: BaseProcess
    log: Path

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.is_alive()

    def wait(self, seconds: float = RUN_SECONDS) -> int:
        """Its exit code.

        Raises:
            TimeoutError: it does not end.
        """
        self.process.join(seconds)
        if self.process.exitcode is None:
            raise TimeoutError(f"a run did not end in {seconds:.0f} s, see {self.log}")
        return self.process.exitcode

    def await_stop(self) -> bool:
        """Wait until it has stopped itself; False where it came to its end."""
        assert self.process.pid
        while self.is_alive:
            try:
                if psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED:
                    return True
            except GONE:
                return False
            time.sleep(0.02)
        return False

    def end(self) -> None:
        """Kill it, and the driver that it has started."""
        self.process.kill()
        self.process.join()
        end_all(str(self.log))

    def said(self) -> str:
        """The last of what it said."""
        return self.log.read_text(errors="replace")[-1_500:] if self.log.exists() else ""


@dataclass
class Stand:
    """All of it, started when it is first asked for."""

    folder: Path
    environment: dict[str, str]
    """Of the runs; they are forked from a process that may be older than this stand."""
    stack: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def forks(self) -> ForkServerContext:
        """Makes processes out of one that has imported all and started no thread."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([orchestrator.__name__, "tasks.ray_job.__main__"])
        return context

    @cached_property
    def clusters(self) -> Clusters:
        """A head and two nodes, until a fault breaks them."""
        clusters = Clusters(self.folder, {**os.environ})
        self.stack.callback(clusters.kill)
        return clusters

    @cached_property
    def s3(self) -> S3:
        """The server."""
        return self.stack.enter_context(running_s3())

    @cached_property
    def proxy(self) -> FaultyS3:
        """What stands before it."""
        return self.stack.enter_context(faulty_s3(self.s3.endpoint_url))

    def site(self, case: Case) -> Site:
        """A case's place."""
        folder = self.folder / f"{case.where[0]}{case.seed}"
        (folder / "notes").mkdir(parents=True)
        cluster: dict[str, Any] = {"kind": "inline"}
        if case.where == "cluster":
            cluster = {"kind": "local", "address": self.clusters.start().address}
        if not case.pipeline.on_s3:
            return Site(folder, str(folder), cluster=cluster)
        options = {"endpoint_url": self.proxy.endpoint_url}
        return Site(folder, self.s3.url(folder.name), options, cluster)

    def start(self, raw: dict[str, Any], options: RunOptions, strike: Strike, log: Path) -> Run:
        """Start a run in a process of its own."""
        target = orchestrator.orchestrate
        given = (raw, options, strike, str(log), self.environment)
        process = self.forks.Process(target=target, args=given)
        process.start()
        return Run(process, log)


@contextmanager
def stand(folder: Path) -> Iterator[Stand]:
    """A stand, for as long as the context lasts; what it sets in the environment goes with it."""
    environment = {
        **CREDENTIALS,
        # Ray notes in its folder which cluster to join; others must not find ours there.
        "RAY_TMPDIR": str(folder),
        "RAY_AUTH_MODE": "disabled",
        "RAY_worker_niceness": "0",
    }
    with patch.dict(os.environ, environment), ExitStack() as stack:
        yield Stand(folder, environment, stack)
