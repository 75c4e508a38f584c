"""What a run is about to publish, and the names its files will bear."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import pyarrow as pa

from tasks.protocol.acceptance import Accepted
from tasks.protocol.ids import Mask
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.plan_file import Plan, path_of
from tasks.protocol.rewriting import AmendRows, DropRows, as_they_are, stage_kept
from tasks.protocol.storage import Storage


class Keys(Protocol):
    """Names of a run's rows: published rows of the same names leave when these come."""

    @property
    def chosen(self) -> dict[str, Mask]:
        """By staged file, which of its rows are published, where that is not all of them.

        Raises:
            KeysRepeated: rows of one name, and nothing says which of them counts.
        """

    def left(self, files: list[LedgerFile]) -> Iterator[Mask]:
        """Of each published file, which rows have names that the run does not bring."""


@dataclass(frozen=True)
class Publication:
    """What a run is about to publish."""

    run_key: str
    run: RunFolder
    plan: Plan
    accepted: Accepted
    suffix: str
    drop_rows: DropRows
    drop_rejections: DropRows
    replaces: bool = False
    """Whether it is a complete new version."""
    drops_others: bool = False
    """Whether that may lack inputs which others have published since it was planned."""
    check: Callable[[Snapshot], None] = lambda seen: None
    """Raises where something that is published by now speaks against it."""
    rows: dict[str, int] = field(default_factory=dict)
    """By what became of them; all that were staged count as written."""
    details: dict[str, Any] = field(default_factory=dict)
    configs: tuple[str, ...] = ()
    """Digests of what decides its predictions: none but theirs may lie in the same output."""
    amend_rejections: AmendRows = as_they_are
    """Adds to rows that a redrive sets aside again what was said of them before."""
    keys: Keys | None = None
    """None where rows are added beside those of the same name."""

    def entry_details(self, seen: Snapshot) -> dict[str, Any]:
        """The details, and where the plan lies: a listing might not show the one in force yet.

        A schema that the last version to tell one has told is not told again: of a wide table it is
        long, and hourly runs would fill the ledger with it.

        Args:
            seen: what is published now.
        """
        rows = {"rows": self.rows_published} if self.rows else {}
        is_told = not self.replaces and self.details.get("schema") in seen.schemas[-1:]
        schema = {"schema": None} if is_told else {}
        return {**self.details, **schema, **rows, "plan": path_of(self.run, self.plan)}

    @property
    def chosen(self) -> dict[str, Mask]:
        """By staged file, which of its rows are published, where that is not all of them."""
        return self.keys.chosen if self.keys is not None else {}

    @property
    def rows_published(self) -> dict[str, int]:
        """Rows by what became of them; where rows have names, the newest of a name is written."""
        if self.keys is None:
            return self.rows
        superseded = sum(int((~keep).sum()) for keep in self.chosen.values())
        written = self.rows["written"] - superseded
        return {**self.rows, "written": written, "superseded": superseded}

    @property
    def published_shards(self) -> pa.Table:
        """path, identity and shard of all that the plan is of."""
        shards = self.plan.shards.select(["path", "identity", "number"])
        return shards.rename_columns(["path", "identity", "shard"])


def part_names(output: OutputFolder, version: int) -> Iterator[str]:
    """Names of a version's files, without folder and suffix.

    In a table no name may come twice, also where the ledger begins anew: who reads an older
    version of the table still reads the file.
    """
    unique = f"-{uuid.uuid4().hex}" if output.table else ""
    return (f"part-{version:05d}-{number:05d}{unique}" for number in count())


def data_files(storage: Storage, what: Publication, names: Iterator[str]) -> Iterator[LedgerFile]:
    """The accepted records' files, with the names they will bear."""
    for record in what.accepted.records:
        for file in record.files:
            staged = file
            if file.name in what.chosen:
                content = storage.read(f"{what.run.staging}/{file.name}")
                keep, drop = what.chosen[file.name], what.drop_rows
                staged = stage_kept(
                    storage, what.run, drop(content, keep), file.ids, keep, file.name
                )
            path = f"{file.partition}{next(names)}{what.suffix}"
            if staged.ids:
                yield LedgerFile.staged_in(what.run, staged, path)
