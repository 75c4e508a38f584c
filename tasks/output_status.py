"""What is published at an output, held against what a spec would make of it today."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.placeholders import is_timed
from tasks.kinds.sources.listing import leads_to, list_inputs
from tasks.ledgers import ledger_of
from tasks.outputs import output_of
from tasks.periods import Portion
from tasks.planning.config import config_digests, other_config
from tasks.planning.equal_configs import equals_of
from tasks.planning.new_inputs import published_paths, unpublished
from tasks.planning.output_as_found import is_emptied, refuse_emptied, rows_taken_away
from tasks.planning.reader_settings import notes, other_rows
from tasks.planning.unfinished import UnfinishedRuns
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.ledger import Snapshot
from tasks.protocol.storage import FsspecStorage
from tasks.scheduled import at_time
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import at_output


@dataclass(frozen=True)
class OutputStatus:
    """What is published, and whether source and config would make the same today."""

    version: int
    inputs: int
    """That lie at the source now."""
    is_outdated: bool
    """Another model or config made what is published, or it was read in another way."""
    is_done: bool
    """Every input is published as it is, by this model and config."""
    dropped: list[str]
    """Published inputs that a new version would be without."""
    notes: list[str]
    """What to know of what is published."""


def allowing_gaps(spec: BatchInferenceSpec) -> BatchInferenceSpec:
    """The spec, to be looked at where a period may hold nothing."""
    return spec.with_part("source", on_empty="succeed")


def has_inputs(spec: BatchInferenceSpec) -> bool:
    """Whether anything lies at any of the source's paths."""
    return bool(list_inputs(allowing_gaps(spec).source)[1])


def has_lost_inputs(spec: BatchInferenceSpec) -> bool:
    """Whether rows are published of what a table had and, being empty, has no more.

    Where that is no error; rows of files stay when the files go.
    """
    if spec.source.on_empty == "fail":
        return False
    seen = ledger_of(spec).look()
    return bool(seen.version and unpublished(spec, spec.source, *list_inputs(spec.source), seen))


def gaps(portion: Portion, spec: BatchInferenceSpec) -> list[datetime]:
    """The portion's periods that hold no input of their own.

    What lies at paths that name no time is there each time, and makes no period one with data.

    Args:
        portion: the run.
        spec: as it was written, with its placeholders.
    """
    timed: Any = [path for path in spec.source.paths if is_timed(path)]
    path = timed if isinstance(spec.source.path, list) else spec.source.path
    own = spec.with_part("source", path=path)
    return [time for time in portion.times if not has_inputs(at_time(own, time))]


def look_at(portion: Portion, fingerprints: dict[str, str]) -> OutputStatus:
    """Look at a portion's output; finishes a publication that was left half applied.

    Args:
        portion: the run.
        fingerprints: digests of weights and code, as `check_spec` gives them.

    Raises:
        InvalidSpec: a new version is needed, which would drop what nobody asked to be dropped; or
            none is, and the output that is published was removed.
        Unreachable: the output's storage does not answer.
    """
    spec = portion.spec
    storage, output = output_of(spec)
    with at_output(spec):
        seen = bring_up_to_date(storage, ledger_of(spec), output)
    inputs_storage, inputs = list_inputs(spec.source)
    is_outdated = is_of_another(spec, seen, fingerprints)
    replaces = is_outdated or spec.sink.mode == "replace"
    there = {stat.path for stat in inputs}
    dropped = sorted(set(published_paths(seen)) - there) if replaces else []
    refuse_loss(portion, inputs_storage, dropped if is_outdated else [])
    if not replaces:
        refuse_emptied(storage, output, seen)
    is_done = (
        not is_outdated
        and not dropped
        and not (replaces and is_emptied(storage, output, seen))
        and not unpublished(spec, spec.source, inputs_storage, inputs, seen)
    )
    said = [] if replaces else rows_taken_away(storage, output, seen)
    said += notes(seen, spec.source)
    return OutputStatus(seen.version, len(inputs), is_outdated, is_done, dropped, said)


def left_published(portion: Portion, fingerprints: dict[str, str]) -> tuple[int, bool]:
    """The version at a portion's output, 0 for none, and whether another model or config made it.

    Where the portion has no input any more, and no run brings it up to date.

    Args:
        portion: the run.
        fingerprints: digests of weights and code, as `check_spec` gives them.
    """
    seen = ledger_of(portion.spec).look()
    return seen.version, bool(seen.version) and is_of_another(portion.spec, seen, fingerprints)


def is_of_another(spec: BatchInferenceSpec, seen: Snapshot, fingerprints: dict[str, str]) -> bool:
    """Whether another model or config made what is published, or it was read in another way."""
    configs = equals_of(*output_of(spec), config_digests(spec, fingerprints, None))
    return other_config(seen, configs) is not None or other_rows(seen, spec.source) is not None


def has_restarted(portion: Portion, flow_run: str) -> bool:
    """Whether a backfill, by its flow run's id, has given up before what it was to of a portion."""
    return UnfinishedRuns(portion.spec, ledger_of(portion.spec).look()).has_begun(flow_run)


def refuse_loss(portion: Portion, storage: FsspecStorage, dropped: list[str]) -> None:
    """Refuse a new version without inputs that are published and were not meant to go.

    In an output of one period these are inputs that are still there. Where several share the
    output, what is gone from the source may have been of a period outside the range; where the
    range is one of these, what its own paths do not lead to was.

    Raises:
        InvalidSpec: says how many, which first, and the ways out: a wider range has none of what is
            gone.
    """
    if len(portion.times) <= 1:
        dropped = [p for p in dropped if storage.stat(p) is not None or is_of_others(portion, p)]
    if not dropped:
        return
    source = portion.spec.source
    outside = [p for p in dropped if not leads_to(source, p) or storage.stat(p) is not None]
    named = f"the range {portion.name}" if portion.times else "source.path"
    where = f"outside {named}" if outside else "that are no longer at the source"
    way_out = f"widen {'the range' if portion.times else 'source.path'}"
    raise InvalidSpec(
        f"another model or config needs a new version of {portion.spec.sink.path}, and that would "
        f"drop the rows of {counted(len(outside or dropped), 'published input')} {where}, the "
        f"first of them {(outside or dropped)[0]}: "
        f"{way_out if outside else 'put them back'}, or use another sink.path"
    )


def is_of_others(portion: Portion, path: str) -> bool:
    """Whether a published input was one of another period than the portion's only one."""
    return bool(portion.times) and not leads_to(portion.spec.source, path)
