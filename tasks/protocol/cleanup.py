"""Orphans: what lies in an output's folders and no record, run or reader needs.

What a crash or a lost race leaves behind does no harm, so that nothing is in a hurry: only what
has not been touched for a day is an orphan, since no process waits so long between a file and the
record that names it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.local_files import is_half_written
from tasks.protocol.object_stat import Lying
from tasks.protocol.records import load_records
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.storage_clock import now_at

OLD_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Orphan:
    """An object to remove."""

    path: str
    size: int
    seconds: float
    """Since it was written."""
    why: str


@dataclass(frozen=True)
class Folders:
    """What lies where."""

    storage: FsspecStorage
    output: OutputFolder
    seen: Snapshot

    @cached_property
    def now(self) -> float:
        """Seconds since the epoch, by the clock that says when files were written."""
        return now_at(self.storage, self.output.ledger)

    def orphan(self, path: str, lying: Lying, why: str) -> Orphan:
        """An object as an orphan."""
        return Orphan(path, lying.size, self.now - lying.modified, why)

    @cached_property
    def rows(self) -> dict[str, Lying]:
        """All that lies in the output."""
        return self.storage.list_with_ages(self.output.path)

    @cached_property
    def state(self) -> dict[str, Lying]:
        """All that lies beside it, by path: of thousands of runs nobody is to ask one by one."""
        return self.storage.list_with_ages(self.output.state)

    @cached_property
    def paths(self) -> list[str]:
        """Where that lies, in order."""
        return list(self.state)

    def below(self, folder: str) -> dict[str, Lying]:
        """What lies below a folder of the state."""
        begin = bisect_left(self.paths, f"{folder}/")
        end = bisect_left(self.paths, f"{folder}0")  # the character after the slash
        return {path: self.state[path] for path in self.paths[begin:end]}

    def is_old(self, lying: Lying) -> bool:
        """Whether an object has not been touched for a day."""
        return lying.modified < self.now - OLD_SECONDS

    def old(self, folder: str) -> dict[str, Lying]:
        """What lies below a folder of the state and has not been touched for a day."""
        return {path: lying for path, lying in self.below(folder).items() if self.is_old(lying)}

    def is_asleep(self, run: RunFolder) -> bool:
        """Whether nothing of a run has been touched for a day."""
        return all(map(self.is_old, self.below(run.path).values()))

    def half_written(self) -> Iterator[Orphan]:
        """What a process was writing when it died; only local disks keep that."""
        for path, lying in chain(self.rows.items(), self.state.items()):
            if is_half_written(path) and self.is_old(lying):
                yield self.orphan(path, lying, "half written")

    def removed(self) -> Iterator[Orphan]:
        """Files that the ledger has removed and that lie there all the same.

        Not those of a table: who reads an older version of it needs them until it is vacuumed.
        """
        live = {file.target(self.output) for file in self.published}
        gone = {file.target(self.output) for file in self.seen.dead_since(0)} - live
        there = self.below(self.output.quarantine)
        if self.output.table is None:
            there |= self.rows
        for path, lying in there.items():
            if path in gone and self.is_old(lying):
                yield self.orphan(path, lying, "no longer published")

    @cached_property
    def published(self) -> list[LedgerFile]:
        """Files that the ledger names."""
        return [*self.seen.files.values(), *self.seen.quarantine.values()]

    @cached_property
    def staged_by_publication(self) -> set[str]:
        """Where those files were staged, and lie until they are moved in."""
        return {file.source(self.output) for file in self.published}

    def unrecorded(self, run: RunFolder) -> Iterator[Orphan]:
        """Staged files of a run that can be resumed, which none of its records names."""
        staged = self.old(run.staging)
        named: set[str] = set()
        for record in load_records(self.storage, run) if staged else ():
            named |= {f"{run.staging}/{file.name}" for file in record.staged}
        for path, lying in staged.items():
            if path not in named and not is_half_written(path):
                yield self.orphan(path, lying, f"no record of run {run.run_id} lists it")

    def unpublished(self, run: RunFolder) -> Iterator[Orphan]:
        """Staged files of a published run that the ledger does not name."""
        for path, lying in self.old(run.staging).items():
            if path not in self.staged_by_publication and not is_half_written(path):
                yield self.orphan(path, lying, f"left over by the published run {run.run_id}")

    def given_up(self, run: RunFolder) -> Iterator[Orphan]:
        """Records and staged files of a run that nobody can resume: records first.

        Files without a record do not exist.
        """
        for folder in (run.records, run.staging):
            for path, lying in self.old(folder).items():
                if not is_half_written(path):
                    yield self.orphan(path, lying, f"run {run.run_id} was given up")
