"""A version of a Lance dataset, whose fragments are what files are elsewhere."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.sources.source import BYTES_PER_READ
from tasks.kinds.sources.table_reading.batches import rows_at_once
from tasks.kinds.sources.table_reading.version import TableFile
from tasks.kinds.tables.lance import open_lance, transaction_of

BLOBS = "lance.blob.v2"
"""What the type is called of blobs since Lance's files of version 2.2."""


@dataclass(frozen=True)
class LanceVersion:
    """A Lance dataset at a version."""

    dataset: Any
    url: str
    storage_options: dict[str, Any]
    condition: pc.Expression | None

    @property
    def pins(self) -> dict[str, Any]:
        """Its number."""
        return {"version": self.dataset.version}

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types; of blobs, those of their bytes."""
        return pa.schema([each.with_type(read_as(each.type)) for each in self.dataset.schema])

    def files(self) -> list[TableFile]:
        """All fragments."""
        return [self.file_of(each.metadata) for each in self.fragments.values()]

    def file_of(self, metadata: Any) -> TableFile:
        """What is known of a fragment."""
        deletions = metadata.deletion_file
        deleted = deletions.num_deleted_rows if deletions else 0
        content = [[file.path for file in metadata.files], deleted, metadata.overlays]
        if deletions:  # a restored version may have lost as many rows, and others
            content.append(deletions.path(metadata.id))
        return TableFile(
            path=f"{self.url}/fragment-{metadata.id}",
            identity=hashlib.sha256(repr(content).encode()).hexdigest()[:16],
            size=sum(file.file_size_bytes or 0 for file in metadata.files),
            rows=metadata.physical_rows - deleted if self.condition is None else None,
        )

    @cached_property
    def fragments(self) -> dict[str, Any]:
        """The fragments by the path that stands for each."""
        found = self.dataset.get_fragments()
        return {f"{self.url}/fragment-{each.fragment_id}": each for each in found}

    def read(self, path: str, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of a fragment.

        Raises:
            FileNotFoundError: a file of it is gone.
        """
        size, stored = rows_at_once(self.schema, names), self.dataset.schema
        has_blobs = any(is_blob(stored.field(name)) for name in names)
        try:
            yield from self.fragments[path].to_batches(
                columns=names,
                filter=self.condition,
                batch_size=size,
                batch_size_bytes=BYTES_PER_READ if has_blobs else None,
                blob_handling="all_binary",
            )
        except (OSError, ValueError) as error:
            if "not found" in str(error).lower():
                raise FileNotFoundError(path) from error
            raise

    def rewrites(self) -> "Iterator[tuple[LanceVersion, LanceVersion]]":
        """The commits of compactions, as far back as versions are kept."""
        from lance import LanceOperation

        kept = {each["version"] for each in self.dataset.versions()}
        for version in sorted(each for each in kept if each - 1 in kept):
            if version > self.dataset.version:
                return
            transaction = transaction_of(self.dataset, version)
            if isinstance(transaction and transaction.operation, LanceOperation.Rewrite):
                yield self.at(version - 1), self.at(version)

    def at(self, version: int) -> "LanceVersion":
        """The dataset at another version."""
        dataset = open_lance(self.url, self.storage_options, version)
        return LanceVersion(dataset, self.url, self.storage_options, self.condition)


def is_blob(column: pa.Field) -> bool:
    """Whether values may be as large as a file, each."""
    return b"lance-encoding:blob" in (column.metadata or {}) or read_as(column.type) != column.type


def read_as(kind: pa.DataType) -> pa.DataType:
    """A type as it is read: of blobs the bytes, not the description of where they lie."""
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == BLOBS:
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(read_as(each.type)) for each in kind.fields])
    return kind
