"""A version of a Delta table: its log says which files, Arrow reads them."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError
from pyarrow.fs import FSSpecHandler, PyFileSystem

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.sources.fitting import DATA_ERRORS
from tasks.kinds.sources.parquet_types import INT96_UNIT
from tasks.kinds.sources.table_reading import delta_bounds
from tasks.kinds.sources.table_reading.batches import rows_at_once
from tasks.kinds.sources.table_reading.delta_moves import moves_rows, told_of_files
from tasks.kinds.sources.table_reading.version import DataFiles, TableFile
from tasks.kinds.tables.delta import open_delta
from tasks.protocol.asked_at_once import fetched
from tasks.protocol.storage import FsspecStorage, open_storage

LOG_READERS = 16
LOGGED = re.compile(r"\d{20}\.json")
DELETIONS = "deletionVectors"
TRUE = pc.scalar(True)
FORMAT = ds.ParquetFileFormat(
    read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit=INT96_UNIT)
)
KNOWN_FEATURES = {
    DELETIONS,
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}


@dataclass(frozen=True)
class DeltaVersion:
    """A Delta table at a version."""

    table: Any
    url: str
    storage_options: dict[str, Any]
    condition: pc.Expression | None
    named: frozenset[str] = frozenset()
    """Columns that the condition names."""
    doubtful: frozenset[str] = frozenset()
    """Those of them whose bounds do not tell what the condition is true of."""
    verify_checksums: bool = True

    def check(self) -> None:
        """See that nothing in the table would be read wrongly.

        Raises:
            InvalidSpec: a feature of it is not known here, or its partitions are bytes.
        """
        parts = self.table.metadata().partition_columns
        if bad := [name for name in parts if pa.types.is_binary(self.schema.field(name).type)]:
            # deltalake writes them escaped, and no reader takes the escapes back.
            problem = f"is partitioned by the bytes of {bad}, which are not read back as written: "
            raise InvalidSpec.at(
                "source.path", self.url, problem + "partition it by text or numbers"
            )
        features = set(self.table.protocol().reader_features or [])
        mode = self.table.metadata().configuration.get("delta.columnMapping.mode", "none")
        unknown = sorted(features - KNOWN_FEATURES - {"columnMapping"})
        unknown += ["columnMapping"] if mode != "none" else []
        if unknown:
            problem = f"uses {', '.join(unknown)} of Delta, which cannot be read here: rewrite the "
            raise InvalidSpec.at("source.path", self.url, problem + "table without it")

    @property
    def pins(self) -> dict[str, Any]:
        """Its number."""
        return {"version": self.table.version()}

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types, those of partitions included."""
        return pa.schema(self.table.schema().to_arrow())

    def files(self) -> list[TableFile]:
        """Files that are not ruled out by their partition or statistics."""
        found = []
        for path in sorted(self.actions.keys() & self.not_ruled_out):
            action, kept = self.actions[path], self.kept_rows.get(path)
            rows, size = action["num_records"].as_py(), action["size_bytes"].as_py()
            identity = str(size)
            if kept is not None:
                as_bytes = kept.to_numpy(zero_copy_only=False).tobytes()
                identity += f"-{hashlib.sha256(as_bytes).hexdigest()[:16]}"
                rows = rows and rows - kept.false_count
            rows = rows if self.condition is None else None
            found.append(TableFile(path, identity, size, rows))
        return found

    @cached_property
    def actions(self) -> dict[str, dict[str, pa.Scalar]]:
        """What the log says of each file, by path; by Arrow, since Python knows fewer days."""
        lines = pa.table(self.table.get_add_actions())
        rows = zip(*lines.columns, strict=True)
        told = (dict(zip(lines.column_names, each, strict=True)) for each in rows)
        return {self.path_of(unquote(line["path"].as_py())): line for line in told}

    @cached_property
    def not_ruled_out(self) -> set[str]:
        """Paths of the files that may hold rows that the condition is true for."""
        if self.condition is None:
            return set(self.actions)
        fragments = [
            self.fragment(path, delta_bounds.bounds(line, self.named - self.doubtful))
            for path, line in self.actions.items()
        ]
        found = ds.FileSystemDataset(fragments, self.schema, FORMAT, self.filesystem)
        return {fragment.path for fragment in found.get_fragments(filter=self.condition)}

    def fragment(self, path: str, known: pc.Expression = TRUE) -> Any:
        """A file for Arrow, with what is known of all its rows beside their partition."""
        known = delta_bounds.partition(self.actions[path], self.schema) & known
        return FORMAT.make_fragment(path, self.filesystem, partition_expression=known)

    @property
    def has_deletions(self) -> bool:
        """Whether rows may be marked as deleted."""
        return DELETIONS in (self.table.protocol().reader_features or [])

    @cached_property
    def kept_rows(self) -> dict[str, pa.BooleanArray]:
        """Of files with deleted rows, which rows are left: a bit a row, up to the last deleted.

        Raises:
            FileNotFoundError: what says so was cleaned up.
            InvalidSpec: whose rows these are cannot be told.
        """
        if not self.has_deletions:
            return {}
        try:
            lines = pa.table(self.table.deletion_vectors()).combine_chunks()
        except DeltaError as error:
            if "not found" in str(error).lower():
                raise FileNotFoundError(str(error)) from error
            raise
        if not len(lines):
            return {}
        # deltalake has followed the links
        real = os.path.realpath if self.place[0].is_local else str
        vectors = {
            real(open_storage(unquote(path.as_py()))[1]): vector.values
            for path, vector in zip(lines["filepath"], lines["selection_vector"], strict=True)
        }
        found = {path: vectors.get(real(path)) for path in self.actions}
        kept = {path: vector for path, vector in found.items() if vector is not None}
        if len(kept) != len(lines):  # rows that are deleted would be read, or others left out
            problem = f"marks rows as deleted in {counted(len(lines), 'file')}, of which it lists "
            way_out = f"{len(kept)}: use the table's own folder, not a link to it"
            raise InvalidSpec.at("source.path", self.url, problem + way_out)
        return kept

    def read(self, path: str, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of a file.

        Raises:
            InvalidSpec: the condition cannot be computed of some.
        """
        kept, fragment = self.kept_rows.get(path), self.fragment(path)
        if kept is None:  # whose bits are of all the file's rows
            fragment = self.with_groups(fragment)
        needed = [*dict.fromkeys([*names, *self.named])]
        size, start = rows_at_once(self.schema, needed), 0
        options = ds.ParquetFragmentScanOptions(page_checksum_verification=self.verify_checksums)
        for batch in fragment.to_batches(
            columns=needed, schema=self.schema, batch_size=size, fragment_scan_options=options
        ):
            rows = pa.Table.from_batches([batch])
            if kept is not None:
                here = kept.slice(start, len(batch))
                start += len(batch)
                beyond = pa.array(np.ones(len(batch) - len(here), dtype=bool))
                rows = rows.filter(pa.concat_arrays([here, beyond]))
            yield from self.chosen(rows).select(names).to_batches()

    def with_groups(self, fragment: Any) -> Any:
        """A file with those of its groups of rows that its own bounds do not rule out."""
        if self.condition is None or self.doubtful:
            return fragment
        try:
            return fragment.subset(self.condition, self.schema)
        except DATA_ERRORS:
            # Bounds are of the file's types, such as the string_view that deltalake 1.6 notes where
            # it has written rows anew, which Arrow does not compare with the table's.
            return fragment

    def chosen(self, rows: pa.Table) -> pa.Table:
        """Rows that the condition is true for.

        Raises:
            InvalidSpec: it cannot be computed of them.
        """
        try:
            return rows if self.condition is None else rows.filter(self.condition)
        except pa.ArrowException as error:
            problem = f"cannot be computed from the table's values: {error}"
            raise InvalidSpec.at("source.filter", str(self.condition), problem) from error

    def rewrites(self) -> Iterator[tuple[DataFiles, DataFiles]]:
        """The commits that changed no data, such as OPTIMIZE's, as far back as the log goes."""
        storage, root = self.place
        names = (stat.path.rpartition("/")[2] for stat in storage.list(f"{root}/_delta_log"))
        kept = sorted(int(name[:20]) for name in names if LOGGED.fullmatch(name))
        versions = [each for each in kept if 1 <= each <= self.pins["version"]]
        found = fetched(self.moved, versions, LOG_READERS)
        for version, moved in zip(versions, found, strict=True):
            if moved is not None:
                with suppress(LookupError):  # a log that was cleaned up
                    yield moved or (self.at(version - 1), self.at(version))

    def moved(self, version: int) -> tuple[DataFiles, DataFiles] | tuple[()] | None:
        """What a commit put in the place of what, if it moved rows; none where it does not tell.

        To open the versions before and after takes as long as all of their files, and each run
        looks at all commits.
        """
        actions = self.commit(version)
        if not moves_rows(actions):
            return None
        if self.condition is not None:  # which may rule some of the files out
            return ()
        return told_of_files(actions, self.path_of) or ()

    def commit(self, version: int) -> list[dict[str, Any]]:
        """What a commit did, from the log; nothing where that is cleaned up.

        Not by deltalake 1.6: its history() numbers commits wrongly where one came meanwhile.
        """
        storage, root = self.place
        try:
            lines = storage.read(f"{root}/_delta_log/{version:020d}.json").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.strip()]

    def committed_at(self, version: int) -> float:
        """When a version was committed, in seconds since 1970; 0 where its log is cleaned up."""
        told = [line.get("commitInfo", {}) for line in self.commit(version)]
        times = (each.get("inCommitTimestamp", each.get("timestamp", 0)) for each in told)
        return max(times, default=0) / 1000

    def at(self, version: int) -> "DeltaVersion":
        """The table at another version."""
        table = open_delta(self.url, self.storage_options, version)
        return replace(self, table=table)

    @cached_property
    def place(self) -> tuple[FsspecStorage, str]:
        """The storage that it lies on, and its path there."""
        return open_storage(self.url, self.storage_options)

    @cached_property
    def filesystem(self) -> PyFileSystem:
        """Where the files lie, for Arrow."""
        return PyFileSystem(FSSpecHandler(self.place[0].filesystem))

    def path_of(self, path: str) -> str:
        """The storage's path of a file by what the log says: below the table, or anywhere."""
        if "://" in path or path.startswith("/"):
            return open_storage(path, self.storage_options)[1]
        return f"{self.place[1]}/{path}"
