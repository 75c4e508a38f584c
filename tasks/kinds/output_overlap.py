"""Whether an output lies apart from the inputs, so that no run takes another's rows for inputs."""

import os
from collections.abc import Iterator
from glob import iglob

import pyarrow.compute as pc

from tasks.errors import InvalidSpec
from tasks.kinds.places import folder_of
from tasks.kinds.sinks.sink import Sink
from tasks.kinds.sources.input_names import glob_in, is_excluded
from tasks.kinds.sources.linked_files import without_links
from tasks.kinds.sources.listing import would_list
from tasks.kinds.sources.source import Source
from tasks.protocol.layout import OutputFolder
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage, open_storage


def check_apart(source: Source, sink: Sink) -> None:
    """See that the next run does not take what this one publishes for inputs.

    Raises:
        InvalidSpec: it would.
    """
    if source.holds != "file":
        return refuse_own_table(source, sink)
    storage, output = open_storage(sink.path, sink.storage_options)
    written = names_written(sink, OutputFolder(without_links(storage, output)))
    for url in source.paths:
        other, path = source.opened(url)
        names = spelled(other, path, written)
        if are_one(other, storage) and any(is_input(source, other, path, name) for name in names):
            raise among_inputs(sink, url)


def refuse_own(source: Source, sink: Sink, storage: FsspecStorage, inputs: Stats) -> None:
    """See that no input is a file of the output, to which a link among the inputs may lead.

    Raises:
        InvalidSpec: one is.
    """
    other, output = open_storage(sink.path, sink.storage_options)
    if source.holds != "file" or not are_one(other, storage):
        return
    place, paths = without_links(other, output), inputs.table["path"]
    for folder in (place, f"{place}.state"):
        own = paths.filter(pc.starts_with(paths, f"{folder}/"))
        if len(own):
            raise among_inputs(sink, own[0].as_py())


def among_inputs(sink: Sink, url: str) -> InvalidSpec:
    """What to tell of an output that a path of the source leads to."""
    problem = f"is inside source.path {url!r}, so the next run would read its files as inputs: use "
    problem += "another folder, or leave it and its .state out with source.exclude"
    return InvalidSpec.at("sink.path", sink.path, problem)


def spelled(storage: FsspecStorage, path: str, names: list[str]) -> Iterator[str]:
    """Names of files, and how a path's listing has them where links in that lead to them."""
    yield from names
    for folder in (folder_of(path), *(links_in(path) if storage.is_local else ())):
        real = without_links(storage, folder)
        below = (name for name in names if folder != real and name.startswith(f"{real}/"))
        yield from (f"{folder}{name.removeprefix(real)}" for name in below)


def links_in(path: str) -> Iterator[str]:
    """Linked folders that a glob's parts before any ** match, by the names that lead to them."""
    parts = path.split("/")
    for at, part in enumerate(parts, start=1):
        if "**" in part:
            return
        if glob_in(part):
            found = iglob("/".join([*parts[:at], ""]), include_hidden=True)
            yield from (each.rstrip("/") for each in found if os.path.islink(each.rstrip("/")))


def are_one(one: FsspecStorage, other: FsspecStorage) -> bool:
    """Whether two storages are the same, whatever else their options say."""
    both = [one.filesystem, other.filesystem]
    if all("s3" in each.protocol for each in both):
        return one.store == other.store
    return bool(both[0] == both[1])


def refuse_own_table(source: Source, sink: Sink) -> None:
    """See that rows are not published into the table that they are read from, nor among its files.

    There the next run would take them for new rows; or a vacuum them for orphans. Where a filter
    says which rows are read, it may leave out those that are published.

    Raises:
        InvalidSpec: they would be.
    """
    if source.holds == "row" or getattr(source, "filter", None):
        return
    catalog = getattr(source, "catalog", None)
    if catalog is not None:  # Iceberg's, which names tables
        there = getattr(sink, "catalog", None), getattr(sink, "table", None)
        is_one = bool(catalog) and (catalog, source.path) == there
    else:
        storage, output = open_storage(sink.path, sink.storage_options)
        other, table = open_storage(source.paths[0], source.storage_options)
        is_one = are_one(other, storage) and f"{output}/".startswith(f"{table.rstrip('/')}/")
    if is_one:
        problem = f"is source.path {source.path!r} or inside it: the next run would read its rows "
        problem += (
            "as inputs, or a vacuum delete its files as orphans: use another place, or choose "
        )
        raise InvalidSpec.at(
            "sink.path", sink.path, f"{problem}the rows to read with source.filter"
        )


def names_written(sink: Sink, output: OutputFolder) -> list[str]:
    """Names as files have them that runs write, one at each depth; rows set aside are Parquet."""
    run, part = output.run("id"), "part-00001-00000"
    partition = "".join(f"{name}=value/" for name in sink.partition_by)
    others = (output.ledger, output.quarantine, run.plans, run.attempt(1))
    rows = [f"{folder}/{partition}{part}{sink.suffix}" for folder in (output.path, run.staging)]
    return [*rows, *(f"{folder}/{part}.parquet" for folder in others)]


def is_input(source: Source, storage: FsspecStorage, path: str, name: str) -> bool:
    """Whether a file would be one, if it were there."""
    if is_excluded(name, source.exclude):
        return False
    return would_list(storage, path, name, source.wanted)
