"""What lies at an output, held against what its ledger says is there."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import PurePosixPath

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.sinks.sink import HIDDEN
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Ledger, Snapshot
from tasks.protocol.storage import FsspecStorage

OUR_PART = re.compile(r"/part-(\d{5,})-\d{5,}(-[0-9a-f]{32})?\.[^/]+$")
IN_PARTS = re.compile(r"(/[^/=]+=[^/]*)*")
"""Folders of `partition_by`; others may hold outputs of their own."""


def refuse_unknown(storage: FsspecStorage, output: OutputFolder, ledger: Ledger) -> None:
    """Refuse an output that has rows of ours and no ledger that knows of them.

    The first run would put its files over some of them and leave others beside its own; to a
    table it would add the same rows again.

    Raises:
        InvalidSpec: names the first one, and the ways out.
    """
    known = next((path for path in readable(storage, output) if OUR_PART.search(path)), None)
    if known is None or ledger.look().version:  # somebody else has just published the first run
        return
    rows = output.path if output.table is None else "all rows of the table"
    raise InvalidSpec.at(
        "sink.path",
        output.path,
        f"has {known}, but no run in {output.state} published it: the state, or the ledger in it, "
        "was removed, or is beside another name of this folder, such as a link; use that name, "
        f"restore the state, choose another folder, or delete {rows} and {output.state} together "
        "and run again, which predicts everything at the source again",
    )


def readable(storage: FsspecStorage, output: OutputFolder) -> Iterator[str]:
    """Files whose rows somebody reads who reads the output, or all that was set aside."""
    if output.table is None:
        yield from (stat.path for stat in storage.list(output.path))
    else:  # files in its folder that the table does not name are nobody's rows
        yield from (f"{output.path}/{file}" for file in sorted(output.table.look("").files))
    yield from (stat.path for stat in storage.list(output.quarantine))


def rows_of_others(storage: FsspecStorage, output: OutputFolder, suffix: str) -> list[str]:
    """What to know of a new output's folder: files there whose rows readers take for its own.

    They are let be: somebody may want them to be read together.

    Args:
        storage: of the output.
        output: its folders.
        suffix: that its files are to have.
    """
    if output.table is not None:
        return []
    there = [stat.path for stat in storage.list(output.path) if stat.path.endswith(suffix)]
    read = [path for path in there if not is_passed_over(path, output)]
    if not read:
        return []
    return [
        f"sink.path: {output.path} has {counted(len(read), f'{suffix} file')} that this output "
        f"did not write, the first {read[0]}: whoever reads the folder reads these too"
    ]


def rows_within_others(storage: FsspecStorage, output: OutputFolder) -> list[str]:
    """What to know of a new output that lies in the folder of another one."""
    said = []
    for parent in PurePosixPath(output.path).parents:
        outer = OutputFolder(str(parent))
        with suppress(OSError):  # of what may not be looked at nothing is known
            if parent.name and storage.stat(outer.applied) is not None:
                said.append(
                    f"sink.path: {output.path} is inside {outer.path}, which is another output: "
                    "whoever reads that folder reads these rows and this ledger's files too"
                )
    return said


def state_on_another_disk(storage: FsspecStorage, output: OutputFolder) -> list[str]:
    """What to know of a new output that is a disk of its own, as a volume of a container is.

    Args:
        storage: of the output.
        output: its folders.
    """
    if not (storage.is_local and os.path.ismount(output.path)):
        return []
    return [
        f"sink.path: {output.path} is a separate disk, and {output.state}, which records what is "
        "published there, is on another: if that one is lost, as a container's disk is, later "
        "runs refuse the rows. Use a folder on that disk, such as "
        f"{output.path.rstrip('/')}/predictions"
    ]


def rows_of_another_name(seen: Snapshot, name: str) -> list[str]:
    """What to know of an output that a spec of another name has published to last.

    It may have been renamed. Or one was copied, and its sink left as it was.

    Args:
        seen: what is published.
        name: of the spec.
    """
    newest = max(seen.entries, default=0)
    was = seen.entries[newest].get("name") if newest else None
    if was in (None, name):
        return []
    return [
        f"name: version {newest} was published by {was!r}, and {name!r} adds its rows to the same "
        "output; if they should not be mixed, give it its own sink.path"
    ]


def is_passed_over(path: str, output: OutputFolder) -> bool:
    """Whether readers of a folder leave a file in it out, by its name or a folder's."""
    inside = path.removeprefix(f"{output.path}/").split("/")
    return any(name.startswith(HIDDEN) for name in inside)


def refuse_emptied(storage: FsspecStorage, output: OutputFolder, seen: Snapshot) -> None:
    """Refuse an output that was removed, and whose ledger says that all is published.

    Nothing would be done, or new inputs' rows alone would lie there.

    Raises:
        InvalidSpec: says how the rows come back.
    """
    if not is_emptied(storage, output, seen):
        return
    problem = (
        f"was removed, but {output.state} is still there and lists "
        f"{counted(len(seen.files), 'file')} of published rows: restore them, delete "
        f"{output.state} too, or run with --replace-output, which predicts every input again"
    )
    raise InvalidSpec.at("sink.path", output.path, problem)


def is_emptied(storage: FsspecStorage, output: OutputFolder, seen: Snapshot) -> bool:
    """Whether rows are published, and nothing lies there any more."""
    return bool(seen.files) and not is_there(storage, output, seen)


def refuse_older(
    storage: FsspecStorage, output: OutputFolder, ledger: Ledger, seen: Snapshot
) -> None:
    """Refuse a state that is older than the rows beside it, as one of a backup is.

    What it has forgotten would be published once more beside what is there; to a table whose log
    names a later version, what comes next would count as being there already.

    Raises:
        InvalidSpec: says which versions these are, and the ways out.
    """
    there = version_there(storage, output, seen) if seen.version else 0
    if there <= seen.version or there <= ledger.look().version:  # else others have just published
        return
    what = "the files there" if output.table is None else "the table's log"
    problem = (
        f"is at version {there} according to {what}, but {output.state} is older and ends with "
        f"version {seen.version}, as after restoring a backup: restore the newest state, or "
        f"delete all rows and {output.state} together and run again, which predicts everything at "
        "the source"
    )
    raise InvalidSpec.at("sink.path", output.path, problem)


def version_there(storage: FsspecStorage, output: OutputFolder, seen: Snapshot) -> int:
    """The latest version that rows are of, whatever the state says."""
    if output.table is not None:
        return output.table.look(seen.id).applied
    inside = (stat.path.removeprefix(output.path) for stat in storage.list(output.path))
    ours = (found for path in inside if (found := OUR_PART.search(path)))
    of_this = (found for found in ours if IN_PARTS.fullmatch(found.string[: found.start()]))
    return max((int(found[1]) for found in of_this), default=0)


def is_there(storage: FsspecStorage, output: OutputFolder, seen: Snapshot) -> bool:
    """Whether anything lies in an output's folder; of a table, whether there is one."""
    if output.table is not None:
        return output.table.look(seen.id).version is not None
    return storage.stat(output.success) is not None or bool(storage.list(output.path))


def rows_taken_away(storage: FsspecStorage, output: OutputFolder, seen: Snapshot) -> list[str]:
    """What to know of an output all of whose rows somebody has taken out of its folder.

    Who picks up what a run has published means that, and would be kept from all later ones; who
    has deleted it to have it made again would wait for it.

    Args:
        storage: of the output.
        output: its folders.
        seen: what is published, all of it applied.
    """
    if output.table is not None or not seen.files:
        return []
    newest = max(seen.files.rows.values(), key=itemgetter("version"))
    if storage.stat(seen.files[newest["path"]].target(output)) is not None:
        return []
    if any(OUR_PART.search(stat.path) for stat in storage.list(output.path)):
        return []
    return [
        f"sink.path: the published rows, {counted(len(seen.files), 'file')}, are no longer in "
        f"{output.path} and are not made again; if you need them there, run with "
        "--replace-output, which predicts every input again"
    ]
