"""An index of an output's vectors, beside the output, kept by Lance.

The index is a copy of the vectors in groups of near ones: a search looks at the groups that are
nearest to the query. Files that came after it are looked at as ever, and files that went are left
out, so that an index that is behind costs time and nothing else. One small file names the dataset's
version and what is in it: what is not named there does not count.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec, StaleLedger
from tasks.kinds.extras import require
from tasks.kinds.sources.source import url_of
from tasks.kinds.tables.lance import lance_options, open_lance
from tasks.ray_job.job import output_of
from tasks.searching.matrix import as_matrix, width_of
from tasks.searching.published import BYTES_SCORED_AT_ONCE, PublishedVectors
from tasks.searching.scoring import SURE_SQUARES, Best, Matrix, Rows, Vector, score
from tasks.spec import BatchInferenceSpec

KEPT_VERSIONS = timedelta(days=1)
"""Older ones nobody searches any more."""
SPARE = 10
"""More are asked for than wanted: Lance's single precision decides between equal ones."""


@dataclass(frozen=True)
class IndexState:
    """What the index holds, as it is kept beside it."""

    version: int
    """Of Lance's dataset."""
    files: dict[str, int] = field(default_factory=dict)
    """Paths of the files that are in it, by the number that its rows name."""
    without: dict[str, int] = field(default_factory=dict)
    """By path, rows that have no vector to compare."""
    groups: int = 1
    """Into which the vectors are cut."""
    looked_at: int = 1
    """Groups that a search looks at."""
    recall: float = 1.0
    """Share of the nearest rows that were found in a trial, of those that there are."""


@dataclass(frozen=True)
class IndexPlace:
    """Where the index of a column lies."""

    spec: BatchInferenceSpec
    column: str

    @property
    def path(self) -> str:
        """Below the state folder."""
        _, output = output_of(self.spec)
        return f"{output.state}/search/{quote(self.column, safe='')}"

    @property
    def url(self) -> str:
        """Of the dataset."""
        return f"{url_of(output_of(self.spec)[0], self.path)}.lance"

    def load(self) -> IndexState | None:
        """What the index holds; None where there is none."""
        storage, _ = output_of(self.spec)
        try:
            return IndexState(**json.loads(storage.read(f"{self.path}.json")))
        except FileNotFoundError:
            return None

    def save(self, state: IndexState) -> None:
        """Let searches use it."""
        storage, _ = output_of(self.spec)
        storage.write(f"{self.path}.json", json.dumps(asdict(state)).encode())

    def open(self, version: int | None = None) -> Any:
        """The dataset."""
        return open_lance(self.url, self.spec.sink.storage_options, version)


@dataclass(frozen=True)
class IndexedVectors(PublishedVectors):
    """Published vectors of which most are found by the index."""

    state: IndexState

    @cached_property
    def dataset(self) -> Any:
        """The version that the state names."""
        return IndexPlace(self.spec, self.column).open(self.state.version)

    def look_at_all(self, query: Vector, count: int) -> tuple[Best, int]:
        """The best rows by number, and how many could not be compared."""
        numbers = {file.path: number for number, file in enumerate(self.files)}
        new = [number for path, number in numbers.items() if path not in self.state.files]
        best, num_without = self.look_at(new, query, count)
        self.add_indexed(query, best, self.state.looked_at)
        return best, num_without + sum(self.state.without.get(path, 0) for path in numbers)

    def add_indexed(self, query: Vector, best: Best, groups: int) -> None:
        """Add the best of what is in the index, scored as every other vector is."""
        starts = {file.path: int(self.starts[n]) for n, file in enumerate(self.files)}
        start_of = {n: starts[path] for path, n in self.state.files.items() if path in starts}
        gone = sorted(set(self.state.files.values()) - set(start_of))
        if not start_of:
            return
        found = self.dataset.to_table(
            columns=["file", "row", "vector", "_distance"],
            filter=f"file NOT IN ({', '.join(map(str, gone))})" if gone else None,
            prefilter=True,
            nearest={
                "column": "vector",
                "q": query.astype(np.float32),
                "k": best.count + SPARE,
                "nprobes": groups,
            },
        )
        if len(found) == 0:
            return
        kind = found.schema.field("vector").type
        vectors, _ = as_matrix(found["vector"], kind.list_size, kind)
        begin = np.array([start_of[file] for file in found["file"].to_pylist()], np.int64)
        score(vectors, begin + found["row"].to_numpy(), query, best)


def with_index(vectors: PublishedVectors) -> PublishedVectors:
    """The same vectors, searched by their index where there is one and Lance is here to read it."""
    state = IndexPlace(vectors.spec, vectors.column).load()
    if state is None:
        return vectors
    require("index", "use", "lance", "lance")
    return IndexedVectors(vectors.spec, vectors.seen, vectors.schema, vectors.column, state)


def bring_up_to_date(vectors: PublishedVectors, wanted_recall: float) -> IndexedVectors:
    """Make the index, or add to it and take from it what has been published since.

    Args:
        vectors: what is published.
        wanted_recall: share of the ten nearest rows to be found, on average.

    Raises:
        InvalidSpec: the vectors cannot be indexed, or Lance is missing.
        StaleLedger: somebody else was at it.
    """
    from tasks.searching.recall import fitted

    require("index", "update", "lance", "lance")
    place = IndexPlace(vectors.spec, vectors.column)
    state = place.load()
    # What a crash has left there is in no state.
    is_whole = state is not None and place.open().version == state.version
    made = renewed(vectors, place, state) if state and is_whole else created(vectors, place)
    see_that_it_is_whole(vectors, place, made)
    found = IndexedVectors(vectors.spec, vectors.seen, vectors.schema, vectors.column, made)
    found = fitted(found, wanted_recall)
    place.save(found.state)
    place.open().cleanup_old_versions(KEPT_VERSIONS)
    return found


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
        raise StaleLedger("the index was changed by somebody else meanwhile; do it again")


@dataclass
class IndexWriter:
    """Turns published files into rows of the index."""

    vectors: PublishedVectors
    next_number: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    without: dict[str, int] = field(default_factory=dict)
    refused: InvalidSpec | None = None
    """What Lance cannot pass on from where it asks for rows."""

    def write(self, files: Iterable[int], place: IndexPlace, mode: str) -> Any:
        """Write the rows of some files; return the dataset.

        Raises:
            InvalidSpec: one of them holds what cannot be indexed.
        """
        import lance

        options = lance_options(self.vectors.spec.sink.storage_options)
        rows, schema = self.batches(files), self.schema
        try:
            return lance.write_dataset(
                rows, place.url, schema=schema, mode=mode, storage_options=options
            )
        except OSError:
            if self.refused:
                raise self.refused from None
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
            problem = f"is {kind}, whose lists may differ in length, and those are not indexed"
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
        try:
            keep = comparable(matrix, self.vectors.column)
        except InvalidSpec as error:
            self.refused = error
            raise
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
        problem = "holds vectors that are too long or too short for an index: search without one"
        raise InvalidSpec.at("column", column, problem)
    return np.flatnonzero(has_direction)
