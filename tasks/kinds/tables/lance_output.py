"""A Lance dataset as the place where an output's files are published."""

import json
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from tasks.errors import StaleTable
from tasks.kinds.tables.footers import once
from tasks.kinds.tables.lance import lance_options, open_lance
from tasks.kinds.tables.lance_marks import (
    APPLIED,
    is_in_order,
    last_applied,
    leaves,
    mark,
    marked,
)
from tasks.protocol.delta_options import lance_url
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.table import VERSIONS_LOOKED_BACK, TableChange, TableState

STORAGE_VERSION = "2.2"
DATA = "data"
"""The dataset's folder of data files."""


@dataclass(frozen=True)
class LanceOutput:
    """The dataset at an output's path.

    Lance rebases an append or an update on whatever was committed meanwhile, also on another
    publisher's of the same rows. Two operations are not rebased on each other: a merge on anything,
    and updates that remove the same fragment. So what only adds is committed as a merge, and what
    removes as an update: both fail where another publisher of the same entry was faster.
    """

    kind: ClassVar[str] = "lance"
    place: str
    url: str
    storage_options: dict[str, Any]
    known: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What data files say of themselves, by path: each is opened once, however often is committed.
    """

    def open(self, version: int | None = None) -> Any:
        """The dataset, as it is or as it was; None where there is none."""
        try:
            return open_lance(self.url, self.storage_options, version)
        except FileNotFoundError:
            return None

    def schema(self) -> pa.Schema | None:
        """The dataset's columns; None where there is no dataset."""
        dataset = self.open()
        return None if dataset is None else dataset.schema.remove_metadata()

    def obstacle(self) -> str | None:
        """Why files of ours cannot be the dataset's; None where they can, or there is none."""
        dataset = self.open()
        if dataset is None:
            return None
        if dataset.data_storage_version != STORAGE_VERSION:
            found = dataset.data_storage_version
            return f"is a dataset of storage version {found}, not {STORAGE_VERSION}"
        has_mark = any(key.decode().startswith(APPLIED) for key in dataset.schema.metadata or ())
        if not (has_mark or is_in_order(dataset)):
            return "is a dataset with dropped columns"
        return None

    def look(self, ledger_id: str) -> TableState:
        """Read the manifest, and transactions back to our last one."""
        dataset = self.open()
        if dataset is None:
            return TableState(0, frozenset())
        applied, is_cut = last_applied(dataset, APPLIED + ledger_id)
        return TableState(applied, files_of(dataset), dataset.version, is_cut=is_cut)

    def way_back(self, files: Set[str]) -> str | None:
        """The call that restores the last version with these files; None once it is cleaned up."""
        dataset = self.open()
        newest = dataset.version if dataset else 0
        for version in range(newest - 1, max(0, newest - VERSIONS_LOOKED_BACK), -1):
            try:
                older = self.open(version)
            except LookupError:
                return None
            if older and files <= files_of(older):
                return f"lance.dataset({self.place!r}, version={version}).restore()"
        return None

    def commit(self, change: TableChange, seen: TableState) -> None:
        """Add and remove files in one transaction on top of what was seen."""
        if seen.version is None and change.schema is None:
            return  # neither a dataset nor a row to make one for
        with errors_of(self.place):
            dataset = self.made(change) if seen.version is None else self.open(int(seen.version))
            dataset = self.widened(dataset, change.schema if change.added else None)
            operation = self.operation(dataset, change)
            self.commit_on(dataset, operation, {"run_id": change.run_id, **mark(change)})

    def made(self, change: TableChange) -> Any:
        """The dataset, made without rows."""
        import lance

        assert change.schema is not None
        return lance.write_dataset(
            stored(change.schema).empty_table(),
            lance_url(self.url),
            mode="create",
            storage_options=lance_options(self.url, self.storage_options),
            data_storage_version=STORAGE_VERSION,
        )

    def widened(self, dataset: Any, schema: pa.Schema | None) -> Any:
        """The dataset with columns for all that is added.

        To readers of rows they are empty, until the transaction that fills them.
        """
        there = {*dataset.schema.names}
        new = [each for each in schema or () if each.name not in there]
        if new:
            dataset.add_columns(stored(pa.schema(new)))
        return dataset

    def operation(self, dataset: Any, change: TableChange) -> Any:
        """What is done to the dataset, as it was opened."""
        from lance import LanceOperation

        live = fragments_by_file(dataset)
        removed = [live[file.path].fragment_id for file in change.removed if file.path in live]
        added = self.added(dataset, change)
        if removed:
            return LanceOperation.Update(removed_fragment_ids=removed, new_fragments=added)
        kept = [each.metadata for each in dataset.get_fragments()]
        return LanceOperation.Merge([*kept, *added], marked(dataset, change))

    def commit_on(self, dataset: Any, operation: Any, properties: dict[str, str]) -> Any:
        """Commit an operation to a version of the dataset; return the next one."""
        import lance

        return lance.LanceDataset.commit(
            lance_url(self.url),
            lance.Transaction(dataset.version, operation, transaction_properties=properties),
            storage_options=lance_options(self.url, self.storage_options),
            max_retries=0,
        )

    def added(self, dataset: Any, change: TableChange) -> list[Any]:
        """The files to add, as fragments."""
        known = {each.name(): leaves(each) for each in dataset.lance_schema.fields()}
        # Not from 0, which Lance takes for a fragment without a number and gives one of its own:
        # where all that were there are gone, one that another of these has.
        first = max(fragment_ids(dataset), default=0) + 1
        found = once(self.known, [file.path for file in change.added], self.footer)
        files = zip(change.added, found, strict=True)
        return [
            fragment(at, file, footer, known)
            for at, (file, footer) in enumerate(files, start=first)
        ]

    def footer(self, path: str) -> Any:
        """What a file says of itself."""
        from lance.file import LanceFileReader

        options = lance_options(self.url, self.storage_options)
        return LanceFileReader(f"{lance_url(self.url)}/{path}", storage_options=options).metadata()


def fragment(at: int, file: LedgerFile, footer: Any, known: dict[str, list[int]]) -> Any:
    """A file as a fragment: which of the dataset's columns are where in it."""
    from lance import FragmentMetadata

    ids = [each for name in footer.schema.names for each in known[name]]
    assert len(ids) == len(footer.columns), f"{file.path} has other columns than the dataset"
    own = {
        "path": file.path.removeprefix(f"{DATA}/"),
        "fields": ids,
        "column_indices": list(range(len(ids))),
        "file_major_version": footer.major_version,
        "file_minor_version": footer.minor_version,
        "file_size_bytes": file.size,
    }
    made = {"id": at, "files": [own], "physical_rows": footer.num_rows}
    return FragmentMetadata.from_json(json.dumps(made))


def fragment_ids(dataset: Any) -> Iterator[int]:
    """Fragments that are there, and those that are gone but still in an index.

    Of a new fragment with the number of such a one, the index would find the old one's rows.
    """
    yield from (each.fragment_id for each in dataset.get_fragments())
    for index in dataset.describe_indices():
        for segment in index.segments:
            yield from segment.fragment_ids


def stored(schema: pa.Schema) -> pa.Schema:
    """A run's schema as a dataset has it: all types but numbers and views for texts."""
    return pa.schema([pa.field(each.name, stored_type(each.type)) for each in schema])


def stored_type(kind: pa.DataType) -> pa.DataType:
    """A column's type in a dataset."""
    if pa.types.is_dictionary(kind):
        return stored_type(kind.value_type)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)


def fragments_by_file(dataset: Any) -> dict[str, Any]:
    """Fragments by their first data file's path below the output."""
    fragments = dataset.get_fragments()
    return {f"{DATA}/{each.data_files()[0].path}": each for each in fragments}


def files_of(dataset: Any) -> frozenset[str]:
    """Data files; one whose rows others have deleted, changed or widened is another by now."""
    return frozenset(
        f"{path} with changes of others" if is_amended(each.metadata) else path
        for path, each in fragments_by_file(dataset).items()
    )


def is_amended(fragment: Any) -> bool:
    """Whether what our data file holds is not what readers of the fragment see.

    Values of a column that others have added are in a second file: they would be lost with ours.
    """
    changed = fragment.deletion_file is not None or bool(fragment.overlays)
    return changed or len(fragment.files) > 1


@contextmanager
def errors_of(place: str) -> Iterator[None]:
    """What Lance raises, as the StaleTable that it is."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise StaleTable(f"{place} did not take the transaction: {error}") from error
