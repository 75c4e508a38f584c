"""The spec that a verb of the command line means: its file, changed as the call says."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from flows.console import say
from tasks.errors import InvalidSpec
from tasks.kinds.mistaken_paths import is_as_written
from tasks.outputs import output_of
from tasks.own_process import GONE
from tasks.planning.preflight import check_spec
from tasks.scheduled import at_time, is_scheduled, parse_time
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec


def spec_for_run(
    spec_file: Path,
    overrides: list[str] | None,
    limit: int | None,
    output: str | None,
    address: str | None,
    scheduled_time: str | None,
) -> tuple[BatchInferenceSpec, datetime]:
    """The file's spec, changed as the call says, and the time it means; checked as it is then.

    Raises:
        InvalidSpec: the spec or the call is wrong.
    """
    given, time = list(overrides or []), time_meant(scheduled_time)
    if address == "":  # in a file it is a box of Prefect's form that was cleared
        raise InvalidSpec.at("--address", address, "is empty: give an address, or leave it out")
    if address is not None:
        given.append(f"cluster={json.dumps({'kind': 'local', 'address': address})}")
    if limit is not None and output is None:
        raise InvalidSpec.at("--limit", limit, "needs --output: some rows are not a version")
    spec = load_spec(spec_file, given)
    if output is not None:
        own, spec = spec, load_spec(spec_file, [*given, sink_at(output)])
        refuse_same_name(own, given, output)
        if limit is not None and place_of(own, time) == place_of(spec, time):
            problem = "is the spec's own output, but some rows are not a version: give another"
            raise InvalidSpec.at("--output", output, problem)
    warn_of_no_use(spec, scheduled_time)
    check_spec(at_time(spec, time))
    return spec, time


def place_of(spec: BatchInferenceSpec, time: datetime) -> str:
    """Where a spec's output lies at a time, however it is written."""
    storage, folder = output_of(at_time(spec, time))
    if storage.is_local:
        return os.path.realpath(folder.path)
    return str(storage.filesystem.unstrip_protocol(folder.path))


def refuse_same_name(own: BatchInferenceSpec, overrides: list[str], output: str) -> None:
    """See that another output has not the name in a catalog that the spec's own has.

    Raises:
        InvalidSpec: it has, and would take the table's place for its readers.
    """
    table = getattr(own.sink, "table", None)
    if table is not None and not any(each.startswith("sink.table=") for each in overrides):
        problem = f"would still be {table} in the catalog: rename it too, with --set sink.table"
        raise InvalidSpec.at("--output", output, f"{problem}=...")


def sink_at(output: str) -> str:
    """The override that puts another output, as seen from here, in the place of the spec's."""
    path = os.path.expanduser(output)
    if path and not is_as_written(path):  # an empty one is no folder, least of all this one
        path = from_here(Path(path))
    return f"sink.path={json.dumps(path, ensure_ascii=False)}"


def from_here(path: Path) -> str:
    """A path from / on; a link that it names itself is not followed.

    What is known of an output lies beside the name that it was published by.

    Raises:
        InvalidSpec: it counts from a folder that is no more.
    """
    is_named = path.name not in ("", "..")
    try:
        return str(path.parent.resolve() / path.name if is_named else path.resolve())
    except FileNotFoundError as error:
        problem = f"is relative, but {GONE}, or give an absolute path"
        raise InvalidSpec.at("the output", str(path), problem) from error


def load_at(
    spec_file: Path, overrides: list[str] | None, scheduled_time: str | None
) -> BatchInferenceSpec:
    """The file's spec as it is at the time that the call names, else now."""
    spec, time = load_spec(spec_file, overrides), time_meant(scheduled_time)
    warn_of_no_use(spec, scheduled_time)
    return at_time(spec, time)


def warn_of_no_use(spec: BatchInferenceSpec, scheduled_time: str | None) -> None:
    """Say that the time which the call names changes nothing, where no path has a place for it.

    It is no error: what calls this for many specs names it for all of them. Nor is an offset of
    times that no path names, as where these are still to be written.
    """
    if is_scheduled(spec):
        return
    problem = "has no effect: no path of the spec contains {scheduled:...}"
    if scheduled_time is not None:
        say(f"warning: --scheduled-time {scheduled_time} {problem}")
    if spec.scheduled.offset:
        say(f"warning: scheduled.offset {spec.scheduled.offset} {problem}")


def time_meant(scheduled_time: str | None) -> datetime:
    """What `--scheduled-time` says; now, where it is not given."""
    if scheduled_time is None:
        return datetime.now(UTC)
    return parse_time("--scheduled-time", scheduled_time)
