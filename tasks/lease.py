"""Who works on a run. A courtesy to people and to the next run; no safety rests on it."""

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event, Thread

import psutil

from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.layout import RunFolder
from tasks.protocol.read_back import read_note
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.storage_clock import now_at

logger = logging.getLogger(__name__)

SILENT_SECONDS = 60.0
"""A process on another machine that has said nothing for so long counts as gone."""
RENEW_SECONDS = 10.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BIRTH = 19
"""Where a process's birth stands in the kernel's words on it, after its name."""


@dataclass(frozen=True)
class Holder:
    """A process; its start time tells it from a later one with the same pid."""

    host: str
    pid: int
    started: float
    at: float
    birth: str | None = None
    """Its start as the kernel counts, which the clock does not move; None where nobody said."""
    flow_runs: tuple[str, ...] = ()
    """Ids of the flow run that it carries out, and of the one that has started that."""
    is_over: bool = False
    """Whether it has said that it works on that no more, as a process that goes on may."""

    @classmethod
    def of(cls, pid: int, flow_runs: tuple[str, ...] = ()) -> "Holder":
        """A process on this machine."""
        started = psutil.Process(pid).create_time()
        return cls(socket.gethostname(), pid, started, time.time(), birth_of(pid), flow_runs)

    @property
    def is_here(self) -> bool:
        """Whether it is one of this machine."""
        return self.host == socket.gethostname()

    def is_this_process(self) -> bool:
        """Whether it is who asks; in containers many processes have the same pid."""
        return self.is_here and self.pid == os.getpid()

    def is_alive(self) -> bool:
        """Whether it still runs; to be asked on its own machine."""
        try:
            process = psutil.Process(self.pid)
            return self.is_same(process) and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def is_same(self, process: psutil.Process) -> bool:
        """Whether it is this process of this machine, and no later one with its pid."""
        if self.birth is not None:
            return self.birth == birth_of(self.pid)
        return abs(process.create_time() - self.started) < 1

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def birth_of(pid: int) -> str | None:
    """Boot and tick in which a process of this machine began; None where no kernel says it so."""
    try:
        boot = Path(BOOT_ID).read_text()
        _, _, said = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")
    except OSError:
        return None
    return f"{boot.strip()} {int(said.split()[BIRTH])}"


def hold(storage: FsspecStorage, run: RunFolder, flow_runs: tuple[str, ...] = ()) -> None:
    """Say that this process works on a run, and for which flow runs."""
    save_holder(storage, run.lease, Holder.of(os.getpid(), flow_runs))


def let_go(storage: FsspecStorage, run: RunFolder) -> None:
    """Say that this process works on a run no more, if it was the last to say that it did.

    A notebook goes on where its run has failed, and would hold the output until it is closed.
    """
    holder = load_holder(storage, run.lease)
    if holder and holder.is_this_process():
        save_holder(storage, run.lease, replace(holder, is_over=True))


@contextmanager
def kept_held(hold: Callable[[], None]) -> Iterator[None]:
    """Say again and again, while the block lasts, that this process works on a run.

    To read the records of a large run, judge its rows and publish them takes minutes in which
    nothing else says so.

    Args:
        hold: says it once; where the storage does not answer, the next time counts.
    """
    is_over = Event()

    def go_on() -> None:
        while not is_over.wait(RENEW_SECONDS):
            with suppress(Exception):
                hold()

    renewing = Thread(target=go_on, daemon=True)
    renewing.start()
    try:
        yield
    finally:
        is_over.set()
        renewing.join()


def save_holder(storage: FsspecStorage, path: str, holder: Holder) -> None:
    """Store who holds something."""
    storage.write(path, json.dumps(asdict(holder)).encode())


def load_holder(storage: FsspecStorage, path: str) -> Holder | None:
    """Who holds something, or None; nobody where a damaged file says so, which is logged."""
    found = read_note(storage, path)
    if found is None:
        return None
    try:
        host, pid = str(found["host"]), int(found["pid"])
        started, at = float(found["started"]), float(found["at"])
    except (LookupError, TypeError, ValueError) as error:
        logger.warning("%s is damaged: it does not name a process (%r)", path, error)
        return None
    flow_runs, is_over = tuple(found.get("flow_runs") or ()), bool(found.get("is_over"))
    return Holder(host, pid, started, at, found.get("birth"), flow_runs, is_over)


def holder_of(storage: FsspecStorage, run: RunFolder, *, or_own: bool = False) -> Holder | None:
    """The live process that works on a run: its orchestrator, or a job that outlived it.

    Args:
        storage: of the output.
        run: its folder.
        or_own: whether it may be who asks.
    """

    def at_work(path: str) -> Holder | None:
        holder = load_holder(storage, path)
        is_other = holder and (or_own or not holder.is_this_process())
        return holder if holder and is_other and is_at_work(storage, path, holder) else None

    if holder := at_work(run.lease):
        return holder
    drivers = [
        s.path for s in storage.list(f"{run.path}/attempts") if s.path.endswith("driver.json")
    ]
    # Of a run that was killed again and again there are hundreds, and each takes some requests.
    return next(filter(None, asked_at_once(at_work, drivers)), None)


def is_held_for(storage: FsspecStorage, run: RunFolder, flow_run: str) -> bool:
    """Whether a run is, or was last, a flow run's; so is one of which nobody has said whose."""
    holder = load_holder(storage, run.lease)
    return holder is None or not holder.flow_runs or flow_run in holder.flow_runs


def is_followed(storage: FsspecStorage, run: RunFolder) -> bool:
    """Whether the process lives that works on a run, whatever becomes of the run's jobs."""
    holder = load_holder(storage, run.lease)
    return holder is not None and is_at_work(storage, run.lease, holder)


def is_at_work(storage: FsspecStorage, path: str, holder: Holder) -> bool:
    """Whether the holder that a file names is alive; one elsewhere shows it by what it writes.

    Here its pid means nothing.
    """
    if holder.is_over:
        return False
    if holder.is_here:
        return holder.is_alive()
    return silent_seconds(storage, path, holder) < SILENT_SECONDS


def silent_seconds(storage: FsspecStorage, path: str, holder: Holder) -> float:
    """How long ago a holder elsewhere has written its file, or a driver its progress.

    It is counted on the storage's clock. By two machines' one that lives may seem dead, and one
    that is dead would hold the output for as long as its clock was ahead.
    """
    now = now_at(storage, path)  # first: it may take long, and the holder writes meanwhile
    at, files = holder.at, [path]
    if path.endswith("/driver.json"):
        progress = f"{os.path.dirname(path)}/progress.json"
        at, files = (read_note(storage, progress) or {}).get("at", at), [*files, progress]
    written = [each for each in map(storage.modified, files) if each is not None]
    if not written:  # a storage that keeps no times
        return time.time() - float(at)
    return now - max(written)
