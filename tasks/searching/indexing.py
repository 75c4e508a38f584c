"""Makes an index of an output's vectors, and brings it up to date."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import BatchInferenceError, InvalidSpec, StaleLedger
from tasks.kinds.extras import require
from tasks.kinds.tables.lance import lance_options
from tasks.protocol.delta_options import lance_url
from tasks.searching.index import IndexedVectors, IndexPlace, IndexState
from tasks.searching.matrix import as_matrix, width_of
from tasks.searching.published import BYTES_SCORED_AT_ONCE, PublishedVectors
from tasks.searching.recall import fitted
from tasks.searching.scoring import SURE_SQUARES, Matrix, Rows

KEPT_VERSIONS = timedelta(days=1)
"""Older ones nobody searches any more."""


def bring_up_to_date(vectors: PublishedVectors, wanted_recall: float) -> IndexedVectors:
    """Make the index, or add to it and take from it what has been published since.

    Args:
        vectors: what is published.
        wanted_recall: share of the ten nearest rows to be found, on average.

    Raises:
        InvalidSpec: the vectors cannot be indexed, a file is lost, or Lance is missing.
        StaleLedger: somebody else was at it, or published anew.
    """
    require("index", "update", "lance", "lance")
    place = IndexPlace(vectors.spec, vectors.column)
    state = place.load()
    goes_on = state is not None and can_go_on(vectors, place, state)
    made = renewed(vectors, place, state) if state and goes_on else created(vectors, place)
    see_that_it_is_whole(vectors, place, made)
    found = IndexedVectors(vectors.spec, vectors.seen, vectors.schema, vectors.column, made)
    found = fitted(found, wanted_recall)
    place.save(found.state)
    place.open().cleanup_old_versions(KEPT_VERSIONS)
    return found


def can_go_on(vectors: PublishedVectors, place: IndexPlace, state: IndexState) -> bool:
    """Whether the dataset is as it was noted, and takes vectors as they are now."""
    try:
        dataset = place.open()
    except FileNotFoundError:
        return False
    kind = IndexWriter(vectors).schema.field("vector").type  # another model's may be longer
    # What a crash has left there is in no state.
    as_noted = dataset.version == state.version and dataset.schema.field("vector").type == kind
    # Without a vector there are no groups, and vectors that come later would stay without.
    return bool(as_noted and dataset.has_index)


def created(vectors: PublishedVectors, place: IndexPlace) -> IndexState:
    """An index of all files."""
    writer = IndexWriter(vectors)
    dataset = writer.write(range(len(vectors.files)), place, "overwrite")
    groups = max(1, round(dataset.count_rows() ** 0.5))
    if dataset.count_rows():
        dataset = dataset.create_index(
            "vector", "IVF_FLAT", metric="cosine", num_partitions=groups, replace=True
        )
    return IndexState(dataset.version, writer.numbers, writer.without, groups)


def renewed(vectors: PublishedVectors, place: IndexPlace, state: IndexState) -> IndexState:
    """The index with the files that came, and without those that went."""
    live = {file.path for file in vectors.files}
    writer = IndexWriter(vectors, next_number=1 + max(state.files.values(), default=-1))
    new = [n for n, file in enumerate(vectors.files) if file.path not in state.files]
    if gone := [str(n) for path, n in state.files.items() if path not in live]:
        place.open().delete(f"file IN ({', '.join(gone)})")
    if new:
        writer.write(new, place, "append").optimize.optimize_indices()
    files = {path: n for path, n in state.files.items() if path in live} | writer.numbers
    without = {path: n for path, n in state.without.items() if path in live} | writer.without
    return replace(state, version=place.open().version, files=files, without=without)


def see_that_it_is_whole(vectors: PublishedVectors, place: IndexPlace, state: IndexState) -> None:
    """See that the index has each row once.

    Raises:
        StaleLedger: somebody else has brought it up to date at the same time.
    """
    wanted = sum(file.rows for file in vectors.files) - sum(state.without.values())
    if place.open(state.version).count_rows() != wanted:
        raise StaleLedger("the index was changed by somebody else meanwhile; run it again")


@dataclass
class IndexWriter:
    """Turns published files into rows of the index."""

    vectors: PublishedVectors
    next_number: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    without: dict[str, int] = field(default_factory=dict)
    broke: BatchInferenceError | None = None
    """What Lance cannot pass on from where it asks for rows."""

    def write(self, files: Iterable[int], place: IndexPlace, mode: str) -> Any:
        """Write the rows of some files; return the dataset.

        Raises:
            InvalidSpec: one of them holds what cannot be indexed, or is lost.
            StaleLedger: one was replaced meanwhile.
        """
        import lance

        options = lance_options(place.url, self.vectors.spec.sink.storage_options)
        rows, schema = self.noting_errors(self.batches(files)), self.schema
        try:
            url = lance_url(place.url)
            return lance.write_dataset(rows, url, schema=schema, mode=mode, storage_options=options)
        except OSError:
            if self.broke:
                raise self.broke from None
            raise

    def noting_errors(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows, and a note of what they end with."""
        try:
            yield from batches
        except FileNotFoundError as error:
            self.broke = self.vectors.gone(error)
            raise
        except InvalidSpec as error:
            self.broke = error
            raise

    @property
    def width(self) -> int:
        """Numbers in each vector.

        Raises:
            InvalidSpec: these may differ.
        """
        kind = self.vectors.schema.field(self.vectors.column).type
        width = width_of(kind)
        if width is None:
            problem = f"is {kind}, whose lists may differ in length, so it cannot be indexed"
            raise InvalidSpec.at("column", self.vectors.column, problem)
        return width

    @property
    def schema(self) -> pa.Schema:
        """Of the index."""
        kind = self.vectors.schema.field(self.vectors.column).type.value_type
        vector = pa.list_(kind, self.width)
        return pa.schema([("file", pa.int32()), ("row", pa.int64()), ("vector", vector)])

    def batches(self, files: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Rows of some files, a piece at a time."""
        reader = self.vectors.reader([self.vectors.column])
        num_rows = max(1, BYTES_SCORED_AT_ONCE // (4 * self.width))
        for file in files:
            path, start = self.vectors.files[file].path, 0
            number = self.numbers[path] = self.next_number
            self.next_number, self.without[path] = self.next_number + 1, 0
            for piece in reader.pieces(self.vectors.files[file], num_rows):
                yield self.batch(path, number, start, piece[self.vectors.column])
                start += len(piece)

    def batch(self, path: str, number: int, start: int, column: pa.ChunkedArray) -> pa.RecordBatch:
        """One piece's rows, without those that cannot be compared."""
        kind = self.vectors.schema.field(self.vectors.column).type
        matrix, rows = as_matrix(column, self.width, kind)
        keep = comparable(matrix, self.vectors.column)
        matrix, rows = matrix[keep], rows[keep]
        self.without[path] += len(column) - len(rows)
        numbers = pa.array(np.full(len(rows), number, np.int32))
        flat = pa.array(np.ascontiguousarray(matrix).ravel(), kind.value_type)
        vectors = pa.FixedSizeListArray.from_arrays(flat, self.width)
        return pa.record_batch([numbers, pa.array(rows + start), vectors], schema=self.schema)


def comparable(matrix: Matrix, column: str) -> Rows:
    """Which vectors have a direction.

    Raises:
        InvalidSpec: one is so long or short that single precision, which Lance takes, loses it.
    """
    with np.errstate(all="ignore"):
        single = matrix.astype(np.float32, copy=False)
        squares = np.einsum("ij,ij->i", single, single)
        largest = np.abs(matrix).max(axis=1)
    has_direction = np.isfinite(largest) & (largest > 0)
    sure = (squares > SURE_SQUARES[0]) & (squares < SURE_SQUARES[1])
    if (has_direction & ~sure).any():
        problem = "has vectors that are too long or too short for an index: search without one"
        raise InvalidSpec.at("column", column, problem)
    return np.flatnonzero(has_direction)
