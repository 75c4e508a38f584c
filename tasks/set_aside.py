"""A redrive's work: rows that published runs have set aside, in inputs that are as they were."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.protocol.ids import IdRuns, Ids, row_of, shard_of
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import REDRIVE_SCHEMA, SHARD_SCHEMA, Plan, load_plan
from tasks.protocol.redriving import rows_set_aside
from tasks.protocol.storage import FsspecStorage, Stat, open_storage
from tasks.ray_job.job import output_of
from tasks.spec import BatchInferenceSpec

LOOKERS = 32
PLAN_SCHEMA = pa.schema([*SHARD_SCHEMA, *REDRIVE_SCHEMA])


@dataclass(frozen=True)
class SetAside:
    """Shards with rows in the quarantine, whoever set them aside."""

    spec: BatchInferenceSpec
    lines: list[dict[str, Any]]
    """Lines of the plan."""
    readers: dict[str, Any]
    """Reader settings of each run that set rows aside: its rows are read as it read them."""
    skipped: int
    """Inputs that have changed or are gone since: a run does them, and no redrive can."""

    @classmethod
    def find(cls, spec: BatchInferenceSpec, seen: Snapshot) -> "SetAside":
        """Look up the quarantine's rows in the plans of the runs that set them aside.

        Raises:
            InvalidSpec: the spec's source is of another kind than theirs, or a plan is gone.
        """
        storage, output = output_of(spec)
        runs = [
            PastRun.of(storage, output, run_id, ids)
            for run_id, ids in sorted(rows_set_aside(seen).items())
        ]
        for run in runs:
            run.refuse_other_source(spec)
        lines = [line for run in runs for line in run.lines(seen)]
        as_they_were = unchanged(spec, lines)
        same = [line for line in lines if line["path"] in as_they_were]
        skipped = len({line["path"] for line in lines} - {line["path"] for line in same})
        numbered = [{**line, "number": number} for number, line in enumerate(same)]
        readers = {run.run_id: run.plan.pins["reader"] for run in runs}
        return cls(spec, numbered, readers, skipped)

    @property
    def key(self) -> Any:
        """What the run's key says of it; which rows there are follows from the ledger's version."""
        return ["redrive", self.spec.source.model_dump(mode="json", exclude={"path", "exclude"})]

    def plan(self, old: Plan | None, pins: dict[str, Any]) -> Plan:
        """The redrive's plan; what has changed since an earlier attempt is left out."""
        if old is None:
            table = pa.Table.from_pylist(self.lines, PLAN_SCHEMA)
            more = {"reader": {}, "readers": self.readers, "known_rows": None}
            return Plan(table, {**pins, **more, "next_number": len(table)})
        known = {(line["path"], line["identity"], line["start"]) for line in self.lines}
        kept = [
            line
            for line in old.shards.to_pylist()
            if (line["path"], line["identity"], line["start"]) in known
        ]
        if len(kept) == len(old.shards):
            return old
        table = pa.Table.from_pylist(kept, PLAN_SCHEMA)
        return Plan(table, old.pins, (*old.ancestors, old.digest))


@dataclass(frozen=True)
class PastRun:
    """A published run that set rows aside."""

    run_id: str
    aside: Ids
    plan: Plan
    source_kind: str

    @classmethod
    def of(
        cls, storage: FsspecStorage, output: OutputFolder, run_id: str, aside: Ids
    ) -> "PastRun":
        """Read it from its folder.

        Raises:
            InvalidSpec: the folder is gone.
        """
        folder = output.run(run_id)
        plan = load_plan(storage, folder)
        if plan is None:
            raise InvalidSpec.at(
                "redrive",
                run_id,
                "is a run that has set rows aside, and its folder is gone; --replace-output "
                "predicts every input again",
            )
        header = json.loads(storage.read(folder.header))
        return cls(run_id, aside, plan, header["spec"]["source"]["kind"])

    def refuse_other_source(self, spec: BatchInferenceSpec) -> None:
        """Raise InvalidSpec where the spec reads inputs in another way than the run did."""
        if spec.source.kind != self.source_kind:
            raise InvalidSpec.at(
                "source.kind",
                spec.source.kind,
                f"cannot read what run {self.run_id} has set aside: that is {self.source_kind}",
            )

    def lines(self, seen: Snapshot) -> Iterator[dict[str, Any]]:
        """Lines of a plan that does its rows again."""
        shards = {line["number"]: line for line in self.plan.shards.to_pylist()}
        published = published_shards(seen, self.run_id)
        numbers = shard_of(self.aside)
        for number in np.unique(numbers).tolist():
            shard, rows = shards[number], self.aside[numbers == number]
            # The one row set aside of a file without any other may stand for a file that nobody
            # could read: it may hold more than that row now.
            unread = shard["rows"] is None and row_of(rows).tolist() == [0]
            yield {
                **{name: shard[name] for name in SHARD_SCHEMA.names},
                "origin_run": self.run_id,
                "aside": IdRuns.of(rows).as_json(),
                "whole": unread and number not in published,
            }


def published_shards(seen: Snapshot, run_id: str) -> set[int]:
    """Shards of a run of which some row is published."""
    found: set[int] = set()
    for file in seen.files.values():
        if file.run_id == run_id:
            found.update(np.unique(shard_of(file.ids.ids())).tolist())
    return found


def unchanged(spec: BatchInferenceSpec, lines: list[dict[str, Any]]) -> set[str]:
    """Paths of the inputs that are what they were when their rows were set aside."""
    storage, _ = open_storage(spec.source.paths[0], spec.source.storage_options)
    known = {line["path"]: line["identity"] for line in lines}
    with ThreadPoolExecutor(LOOKERS) as pool:
        stats = pool.map(storage.stat, known)
        return {path for path, stat in zip(known, stats, strict=True) if is_same(stat, known[path])}


def is_same(stat: Stat | None, identity: str) -> bool:
    """Whether an input is there, with the content it had."""
    return stat is not None and stat.identity == identity
