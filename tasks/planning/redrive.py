"""Rows that published runs have done, once more, in inputs that are as they were.

A redrive's are those that were set aside.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.outputs import output_of
from tasks.planning.archived_inputs import refuse_archived
from tasks.planning.cut_off_files import rows_to_redrive
from tasks.planning.known_columns import refuse_unknown_columns
from tasks.planning.reader_settings import WHICH_INPUTS
from tasks.protocol.asked_at_once import asked_at_once, fetched
from tasks.protocol.ids import RowsByRun
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan
from tasks.protocol.read_back import OF_PUBLISHED
from tasks.protocol.redrive_shards import (
    Line,
    PastRun,
    lines_of,
    redrive_plan,
    runs_of,
)
from tasks.protocol.storage import FsspecStorage
from tasks.run_folder import day_of, read_header
from tasks.spec import BatchInferenceSpec

MAY_DIFFER = WHICH_INPUTS | {
    *("types", "null_values", "encoding", "sampling_rate", "verify_checksums"),
}
"""Fields of a source that decide which inputs there are, or what a value is, but not which row is
which, nor which columns it has."""
SINK_MAY_DIFFER = {
    *("path", "storage_options", "catalog", "rows_per_file", "compression"),
    *("mode", "newest_by", "keep_columns", "evolve_schema", "types"),
}
"""Fields of a sink that change nothing of how rows lie beside those that are published. Which
columns they have is compared where they are written."""


@dataclass(frozen=True)
class SetAside:
    """Shards with rows in the quarantine, whoever set them aside."""

    spec: BatchInferenceSpec
    lines: list[Line]
    readers: dict[str, Any]
    """Reader settings by run: rows are read as they were when they were first set aside."""
    changed: frozenset[str]
    """Inputs that have changed or are gone since: a run does them, and no redrive can."""
    days: dict[str, str] = field(default_factory=dict)
    """Day on which each of the runs was planned that did the rows."""

    left_out: ClassVar[str] = ""
    """Only inputs of earlier runs are looked at, whatever else lies beside them."""

    @property
    def skipped(self) -> int:
        """How many these are."""
        return len(self.changed)

    @classmethod
    def find(cls, spec: BatchInferenceSpec, seen: Snapshot) -> "SetAside":
        """Look the quarantine's rows up in the plans of the runs that set them aside.

        Raises:
            InvalidSpec: the spec's source is of another kind than theirs, or what one of them
                has left behind is gone, or inputs have to be restored from an archive first.
        """
        return cls.of(spec, seen, rows_to_redrive(*output_of(spec), seen))

    @classmethod
    def of(cls, spec: BatchInferenceSpec, seen: Snapshot, rows: RowsByRun) -> "SetAside":
        """Look rows up in the plans of the runs that did them.

        Args:
            spec: what to do with them.
            seen: what is published.
            rows: of published runs.

        Raises:
            InvalidSpec: as `find` does.
        """
        storage, output = output_of(spec)
        lines: list[Line] = []
        readers: dict[str, Any] = {}
        days: dict[str, str] = {}
        for header, own, read_by in past_runs(storage, output, seen, rows):
            refuse_other_source(spec, header)
            refuse_other_sink(spec, header)
            lines += own
            readers |= read_by
            days[header["run_id"]] = day_of(header)
        same = unchanged(spec, lines)
        inputs = {line["path"] for line in lines}
        lines = [line for line in lines if line["path"] in same]
        storage, _ = spec.source.opened(spec.source.paths[0])
        if storage.has_pages:  # as S3 has, where what was read once may be archived by now
            refuse_archived(storage, sorted({line["path"] for line in lines}))
        used = {line["read_as"]: readers[line["read_as"]] for line in lines}
        retyped = {run_id: spec.source.retyped(pins) for run_id, pins in used.items()}
        return cls(spec, lines, retyped, frozenset(inputs - same), days)

    @staticmethod
    def key(spec: BatchInferenceSpec) -> Any:
        """What the run's key says of it; which rows there are follows from the ledger's version."""
        return ["redrive", spec.source.identity({"path", "exclude"})]

    def plan(
        self, old: Plan | None, pins: dict[str, Any], lasting: Sequence[str], *_: object
    ) -> Plan:
        """The redrive's plan; what has changed since an earlier attempt is left out.

        Raises:
            InvalidSpec: a step, the model, the sink or a gate names a column that is not there.
        """
        for run in dict.fromkeys(line["read_as"] for line in self.lines):
            refuse_unknown_columns(self.spec, self.readers[run], lasting)
        more = {"reader": {}, "readers": self.readers, "known_rows": None}
        return redrive_plan(old, self.lines, {**pins, **more})


def past_runs(
    storage: FsspecStorage, output: OutputFolder, seen: Snapshot, rows: RowsByRun
) -> Iterator[tuple[dict[str, Any], list[Line], dict[str, Any]]]:
    """The headers of runs that did some rows, the shards in which these are, and their readers.

    Raises:
        InvalidSpec: what one of them left behind is gone, or damaged.
    """

    def look_at(run: PastRun) -> tuple[dict[str, Any], list[Line], dict[str, Any]]:
        header = read_header(storage, output.run(run.run_id), OF_PUBLISHED)
        return header, lines_of(run), readers_of(run)

    with refuse_nothing_left():
        yield from fetched(look_at, runs_of(storage, output, seen, rows))


@contextmanager
def refuse_nothing_left() -> Iterator[None]:
    """A block that reads what published runs have left behind.

    Raises:
        InvalidSpec: it is gone.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidSpec(
            f"the plan, records or spec of the run that set the rows aside are gone ({error}), so "
            "the rows cannot be found: run with --replace-output, which predicts every input "
            "again"
        ) from error


def refuse_other_source(spec: BatchInferenceSpec, header: dict[str, Any]) -> None:
    """Raise InvalidSpec where a run has read its inputs in another way than the spec would."""
    run_id, kind = header["run_id"], header["spec"]["source"]["kind"]
    if kind != spec.source.kind:
        problem = f"cannot read the rows of run {run_id}: its source is {kind}"
        raise InvalidSpec.at("source.kind", spec.source.kind, problem)
    try:
        then = type(spec.source).model_validate(header["spec"]["source"])
    except ValidationError as error:
        problem = f"cannot be compared with that of run {run_id}, made by another version of this "
        way_out = "software: run with --replace-output, which predicts every input again"
        raise InvalidSpec.at("source", spec.source.kind, f"{problem}{way_out}") from error
    for name in sorted(set(type(spec.source).model_fields) - MAY_DIFFER):
        was, now = getattr(then, name), getattr(spec.source, name)
        if was != now:
            problem = f"was {was!r} in run {run_id}, so rows or columns would differ:"
            way_out = "set it back, or predict everything again with --replace-output"
            raise InvalidSpec.at(f"source.{name}", now, f"{problem} {way_out}")


def refuse_other_sink(spec: BatchInferenceSpec, header: dict[str, Any]) -> None:
    """Raise InvalidSpec where a run has published its rows in another form than the spec would."""
    then, now = header["spec"]["sink"], spec.sink.as_json()
    for name in ("kind", *sorted(now.keys() - SINK_MAY_DIFFER - {"kind"})):
        was = then.get(name, type(spec.sink).model_fields[name].default)
        if was != now[name]:
            problem = f"was {was!r} in run {header['run_id']}, whose output gets the rows:"
            way_out = "set it back, or predict everything again with --replace-output"
            raise InvalidSpec.at(f"sink.{name}", now[name], f"{problem} {way_out}")


def readers_of(run: PastRun) -> dict[str, Any]:
    """Reader settings of a run, by run: a redrive has those of the runs whose rows it did."""
    pins = run.plan.pins
    return pins["readers"] if run.plan.redrives else {run.run_id: pins["reader"]}


def unchanged(spec: BatchInferenceSpec, lines: list[Line]) -> set[str]:
    """Paths of the inputs that are what they were when their rows were set aside."""
    storage, _ = spec.source.opened(spec.source.paths[0])
    known = {line["path"]: line["identity"] for line in lines}
    found = dict(zip(known, asked_at_once(storage.stat, known), strict=True))
    return {path for path, stat in found.items() if stat and stat.identity == known[path]}
