"""An index of an output's vectors, beside the output, kept by Lance.

The index is a copy of the vectors in groups of near ones: a search looks at the groups that are
nearest to the query. Files that came after it are looked at as ever, and files that went are left
out, so that an index that is behind costs time and nothing else. One small file names the dataset's
version and what is in it: what is not named there does not count.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from tasks.kinds.extras import require
from tasks.kinds.tables.lance import open_lance
from tasks.outputs import output_of
from tasks.protocol.read_back import json_object, read_back
from tasks.searching.matrix import as_matrix
from tasks.searching.published import PublishedVectors
from tasks.searching.scoring import Best, Vector, score
from tasks.spec import BatchInferenceSpec

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
        return f"{output_of(self.spec)[0].url_of(self.path)}.lance"

    def load(self) -> IndexState | None:
        """What the index holds; None where there is none.

        Raises:
            InvalidSpec: what it says is damaged.
        """
        storage, _ = output_of(self.spec)
        way_out = "Delete it: searches then read all rows until --index update makes a new index"
        with suppress(FileNotFoundError):
            return read_back(
                storage, f"{self.path}.json", lambda c: IndexState(**json_object(c)), way_out
            )
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
        """Add the best of what is in the index, scored as every other vector is.

        Args:
            query: of length 1.
            best: what is best so far.
            groups: to look at; more of them where these have fewer rows than are wanted.
        """
        starts = {file.path: int(self.starts[n]) for n, file in enumerate(self.files)}
        start_of = {n: starts[path] for path, n in self.state.files.items() if path in starts}
        gone = sorted(set(self.state.files.values()) - set(start_of))
        if not start_of:
            return
        found = self.found_in(groups, query, best.count, gone)
        while len(found) < best.count and groups < self.state.groups:
            groups = min(2 * groups, self.state.groups)
            found = self.found_in(groups, query, best.count, gone)
        if len(found) == 0:
            return
        kind = found.schema.field("vector").type
        vectors, _ = as_matrix(found["vector"], kind.list_size, kind)
        begin = np.array([start_of[file] for file in found["file"].to_pylist()], np.int64)
        score(vectors, begin + found["row"].to_numpy(), query, best)

    def found_in(self, groups: int, query: Vector, count: int, gone: list[int]) -> pa.Table:
        """What Lance finds in the groups that are nearest to a query, but of files that went."""
        return self.dataset.to_table(
            columns=["file", "row", "vector", "_distance"],
            filter=f"file NOT IN ({', '.join(map(str, gone))})" if gone else None,
            prefilter=True,
            nearest={
                "column": "vector",
                "q": query.astype(np.float32),
                # Lance makes room for as many.
                "k": max(1, min(count + SPARE, self.dataset.count_rows())),
                "nprobes": groups,
                "metric": "cosine",  # by which rows are compared that are in no group
            },
        )


def with_index(vectors: PublishedVectors) -> PublishedVectors:
    """The same vectors, searched by their index where there is one and Lance is here to read it.

    What somebody has deleted by hand is not there: an index costs time and nothing else.
    """
    state = IndexPlace(vectors.spec, vectors.column).load()
    if state is None:
        return vectors
    require("index", "use", "lance", "lance")
    found = IndexedVectors(vectors.spec, vectors.seen, vectors.schema, vectors.column, state)
    try:
        return found if found.dataset.version == state.version else vectors
    except (FileNotFoundError, LookupError):
        return vectors
