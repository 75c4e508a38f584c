"""A run's work: inputs that are new or have changed since they were published."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.output_overlap import refuse_own
from tasks.kinds.sources.listing import listing_of
from tasks.kinds.sources.source import Source
from tasks.kinds.sources.table_reading.carried import GONE
from tasks.kinds.sources.wanted_files import told
from tasks.kinds.tables.iceberg import METADATA
from tasks.outputs import output_of
from tasks.planning.archived_inputs import archived_among, refuse_archived
from tasks.planning.moved_inputs import (
    tell_of_changed_first_rows,
    tell_of_moved,
    tell_of_unknown_times,
)
from tasks.planning.sharding import resume_plan
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan
from tasks.protocol.read_back import OF_PUBLISHED
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.texts import large
from tasks.run_folder import read_header
from tasks.spec import BatchInferenceSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class NewInputs:
    """What lies at the source and is not published as it is."""

    spec: BatchInferenceSpec
    storage: FsspecStorage
    left: Stats
    skipped: int
    """Inputs that are published already."""
    left_out: str = ""
    """Files among them that are no inputs for their endings, as a person is told of them."""

    @classmethod
    def find(
        cls,
        spec: BatchInferenceSpec,
        seen: Snapshot,
        *,
        replaces: bool,
        limit: int | None,
        is_outdone: bool = False,
        old: Plan | None = None,
    ) -> "NewInputs":
        """List the source, as an earlier attempt has pinned it, and subtract the ledger.

        Raises:
            InputNotFound: nothing lies at a path, and `on_empty` is `fail`.
            InvalidSpec: it would take rows of another table out of the output, or the output's own
                for inputs; or inputs have to be restored before anybody can read them.
        """
        source = spec.source.as_planned(old.pins["reader"]) if old else spec.source
        listing = listing_of(source)
        storage, inputs = listing.storage, listing.inputs
        refuse_own(source, spec.sink, storage, inputs)
        left = inputs if replaces else unpublished(spec, source, storage, inputs, seen)
        skipped = len(inputs) - len(left) + len(gone_among(left))
        if limit is not None and seen.entries and not replaces:
            tell_of_changed_first_rows(left, seen.inputs)
            left = Stats.of(())  # its first rows are published; those after them are not asked for
        if is_outdone:
            left = Stats.of(())  # they were published, and later ones have taken their place
        gone = gone_among(left)
        if len(gone) and not seen.holds(inputs.table["path"]):
            refuse_other_table(spec, seen, gone)
        archived = archived_among(listing.archived, left)
        refuse_archived(storage, archived, ", or leave them out with source.exclude")
        is_all_asked_for = limit is None and not is_outdone
        if source.holds == "file" and is_all_asked_for and not replaces:
            tell_of_moved(inputs, left, seen.inputs)
            tell_of_unknown_times(inputs, left)
        left_out = told(listing.passed_over) if source.tells_of_others else ""
        return cls(spec, storage, left, skipped, left_out)

    @staticmethod
    def key(spec: BatchInferenceSpec) -> Any:
        """What the run's key says of it."""
        return spec.source.identity()

    def plan(
        self,
        old: Plan | None,
        pins: dict[str, Any],
        lasting: Sequence[str],
        has_done_rows: Callable[[], bool] = lambda: True,
    ) -> Plan:
        """The run's plan: as it is, superseded where inputs have changed, or the first one."""
        return resume_plan(old, self.spec, pins, self.storage, self.left, lasting, has_done_rows)


def gone_among(left: Stats) -> pa.ChunkedArray:
    """Paths of those whose rows are published, and that are there no more."""
    return left.table.filter(pc.equal(left.table["identity"], GONE))["path"]


def unpublished(
    spec: BatchInferenceSpec, source: Source, storage: FsspecStorage, inputs: Stats, seen: Snapshot
) -> Stats:
    """Inputs whose rows are not published as the source has them now, and such as are gone.

    Args:
        spec: what to run.
        source: the spec's, as it is planned.
        storage: where the inputs lie.
        inputs: what lies there now.
        seen: what is published.
    """
    left = source.left(storage, inputs, seen.inputs.select(["path", "identity"]))
    return left if source.names_tell_all else without_others(spec, seen, left)


def without_others(spec: BatchInferenceSpec, seen: Snapshot, left: Stats) -> Stats:
    """Without what was never where the source reads now, and so is not gone from there.

    A database's URL and options may say more than the names of its ranges, as by a search path
    with a time in it: of two schemas tables may have the same name.

    Args:
        spec: what to run.
        seen: what is published.
        left: what is new, has changed or is gone.
    """
    gone = gone_among(left)
    known = published_as(seen, gone)
    are_here = {run_id: has_read_here(spec, run_id) for run_id in set(known["run_id"].to_pylist())}
    runs = zip(known["path"].to_pylist(), known["run_id"].to_pylist(), strict=True)
    others = [path for path, run_id in runs if not are_here[run_id]]
    if not others:
        return left
    logger.info(
        "what is published of %s stays, the first of them %s: they have no rows now, but were "
        "read with another source.path or other source.storage_options",
        *(counted(len(others), "range"), others[0]),
    )
    of_others = pc.is_in(left.table["path"], pa.array(others, pa.string()))
    return Stats(left.table.filter(pc.invert(of_others)))


def has_read_here(spec: BatchInferenceSpec, run_id: str) -> bool:
    """Whether a run is known to have read where the source reads now."""
    source = spec.source.model_dump(mode="json")
    with suppress(FileNotFoundError):
        was = source_of(spec, run_id)
        return all(was.get(name) == source[name] for name in ("path", "storage_options"))
    return False


def source_of(spec: BatchInferenceSpec, run_id: str) -> dict[str, Any]:
    """The source that a run has read, as its spec has it.

    Raises:
        FileNotFoundError: its header is gone.
        InvalidSpec: it is damaged.
    """
    storage, output = output_of(spec)
    found: dict[str, Any] = read_header(storage, output.run(run_id), OF_PUBLISHED)["spec"]["source"]
    return found


def published_as(seen: Snapshot, paths: pa.ChunkedArray) -> pa.Table:
    """How some inputs are published."""
    return seen.inputs.filter(pc.is_in(large(seen.inputs["path"]), large(paths)))


def published_paths(seen: Snapshot) -> list[str]:
    """Inputs whose rows are published, less those of which it is only known that they are gone."""
    inputs = seen.inputs
    there = inputs.filter(pc.not_equal(inputs["identity"], GONE))
    paths: list[str] = there["path"].unique().to_pylist()
    return paths


def refuse_other_table(spec: BatchInferenceSpec, seen: Snapshot, gone: pa.ChunkedArray) -> None:
    """Refuse to take out rows that are of another source than the table that is read now.

    An output follows its table. What is published of others has not left that, so that of a path
    with a time in it each run would take out what the one before has published.

    Args:
        spec: what is read now.
        seen: what is published.
        gone: published inputs that are not in the table.

    Raises:
        InvalidSpec: names the source that they are of, and the ways out.
    """
    run_id = published_as(seen, gone).sort_by("version")["run_id"][-1].as_py()
    now = spec.source
    with suppress(FileNotFoundError):
        was = source_of(spec, run_id)
        if (was["kind"], place_of(was["path"])) != (now.kind, place_of(now.path)):
            problem = (
                f"is not the source that run {run_id} published, {was['kind']} at {was['path']}: "
                "an output follows its table, so those rows would be removed. Publish to another "
                "sink.path, such as one with {scheduled:...} too; or use --replace-output, "
                "which predicts what is there now and drops those rows"
            )
            raise InvalidSpec.at("source.path", now.path, problem)


def place_of(path: str | list[str]) -> str | list[str]:
    """What stays of a source's path while its table changes."""
    if isinstance(path, str):
        return path.rpartition("/")[0] if path.endswith(METADATA) else path.rstrip("/")
    return path
