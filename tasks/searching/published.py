"""The vectors that an output has published, to search in."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import BatchInferenceError, InvalidSpec, StaleLedger
from tasks.kinds.hive import folder_names
from tasks.ledgers import ledger_of
from tasks.machine import cores
from tasks.outputs import output_of
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.ledger import Snapshot
from tasks.protocol.table import taken_out
from tasks.publishing.output_rows import READERS, OutputFile, OutputReader
from tasks.python_rows import python_rows
from tasks.run_folder import published_schema
from tasks.searching.matrix import as_matrix, vector_column, width_of
from tasks.searching.scoring import Best, Rows, Vector, score
from tasks.spec import BatchInferenceSpec

BYTES_SCORED_AT_ONCE = 8 << 20
ROWS_LOOKED_UP_AT_ONCE = 4_096
Row = dict[str, Any]


@dataclass(frozen=True)
class Nearest:
    """The rows nearest to a query, the nearest first; of equals the first published."""

    scores: list[float]
    """Cosines, -1 to 1."""
    rows: list[Row]
    """What else each row holds."""
    num_searched: int
    num_without: int
    """Rows among them without a vector of the query's kind, or with one that points nowhere."""


@dataclass(frozen=True)
class PublishedVectors:
    """All vectors of the published files, each one looked at, some MiB of a file at a time."""

    spec: BatchInferenceSpec
    seen: Snapshot
    schema: pa.Schema
    column: str

    def nearest(self, query: Vector, count: int) -> Nearest:
        """The rows whose vectors have the largest cosines with a vector of length 1.

        Raises:
            InvalidSpec: the published vectors are of another length, or a file is lost.
            StaleLedger: a file was replaced meanwhile.
        """
        self.check_width(len(query))
        try:
            best, num_without = self.look_at_all(query, count)
            rows = self.rows_at(best.rows)
        except FileNotFoundError as error:
            raise self.gone(error) from error
        return Nearest(best.scores.tolist(), rows, int(self.starts[-1]), num_without)

    def gone(self, error: FileNotFoundError) -> BatchInferenceError:
        """What to say of a published file that is not there: whether another search would do."""
        if ledger_of(self.spec).look().version != self.seen.version:
            problem = "the output was published again during the search; search again"
            return StaleLedger(f"{problem} ({error})")
        problem = (
            f"has lost a published file ({error}): somebody has deleted it, or compacted and "
            "vacuumed the table; run again with --replace-output, after deleting all rows of a "
            "table"
        )
        return InvalidSpec.at("output", self.spec.sink.path, problem)

    def check_width(self, width: int) -> None:
        """See that a query has as many numbers as what it is compared with.

        Raises:
            InvalidSpec: it has not.
        """
        ours = width_of(self.schema.field(self.column).type)
        if ours not in (None, width):
            problem = f"numbers make the query, but each vector of {self.column!r} has {ours}"
            raise InvalidSpec.at("query", width, problem)

    def look_at_all(self, query: Vector, count: int) -> tuple[Best, int]:
        """The best rows by number, and how many could not be compared."""
        return self.look_at(range(len(self.files)), query, count)

    def look_at(self, files: Iterable[int], query: Vector, count: int) -> tuple[Best, int]:
        """The same of some files, by their numbers."""
        best, num_without = Best(count), 0
        storage, _ = output_of(self.spec)
        # An object store answers late; with a disk, more threads than cores only take memory.
        num_threads = cores() if storage.is_local else READERS
        with ThreadPoolExecutor(num_threads) as pool:
            for found, without in pool.map(self.scanner(query, count), files):
                best.add(found.scores, found.rows)
                num_without += without
        return best, num_without

    def scanner(self, query: Vector, count: int) -> Callable[[int], tuple[Best, int]]:
        """What finds the best rows of one file, and counts those that cannot be compared."""
        reader, kind = self.reader([self.column]), self.schema.field(self.column).type
        num_rows = max(1, BYTES_SCORED_AT_ONCE // (4 * len(query)))

        def scan(number: int) -> tuple[Best, int]:
            best, num_without, start = Best(count), 0, int(self.starts[number])
            for piece in reader.pieces(self.files[number], num_rows):
                vectors, rows = as_matrix(piece[self.column], len(query), kind)
                num_without += len(piece) - len(rows) + score(vectors, rows + start, query, best)
                start += len(piece)
            return best, num_without

        return scan

    def rows_at(self, numbers: Rows) -> list[Row]:
        """Rows by their numbers, without their vectors."""
        files = np.searchsorted(self.starts, numbers, side="right") - 1
        found: dict[int, Row] = {}
        for file in np.unique(files).tolist():
            wanted = np.sort(numbers[files == file])
            found |= zip(wanted.tolist(), self.look_up(file, wanted), strict=True)
        return [found[number] for number in numbers.tolist()]

    def look_up(self, file: int, numbers: Rows) -> Iterator[Row]:
        """Some rows of a file, in its order."""
        reader = self.reader([name for name in self.schema.names if name != self.column])
        if not reader.names:  # Arrow forgets how many rows a table without columns has
            yield from ({} for _ in numbers)
            return
        start = int(self.starts[file])
        for piece in reader.pieces(self.files[file], ROWS_LOOKED_UP_AT_ONCE):
            here = numbers[(numbers >= start) & (numbers < start + len(piece))]
            yield from python_rows(piece.take(pa.array(here - start)))
            start += len(piece)

    def reader(self, names: list[str]) -> OutputReader:
        """Reads some columns."""
        storage, _ = output_of(self.spec)
        return OutputReader(storage, self.spec.sink, self.schema, names)

    @cached_property
    def files(self) -> list[OutputFile]:
        """The published files in the order in which they were published."""
        _, output = output_of(self.spec)
        files = sorted(self.seen.files.values(), key=lambda file: (file.version, file.path))
        return [
            OutputFile(file.target(output), file.rows, file.path.rpartition("/")[0], file.size)
            for file in files
        ]

    @cached_property
    def changed_by_others(self) -> int:
        """Published files of which others have deleted or moved rows in the table since.

        Which of their rows are still there cannot be told: all are searched.
        """
        return len(taken_out(self.spec.sink.as_table(), self.seen))

    @cached_property
    def starts(self) -> Rows:
        """The number of each file's first row, and of all rows."""
        return np.cumsum([0, *(file.rows for file in self.files)], dtype=np.int64)


def published_vectors(spec: BatchInferenceSpec, column: str | None = None) -> PublishedVectors:
    """What there is to search in.

    Args:
        spec: names the output.
        column: the column of vectors; where None, `embedding` or the only one there is.

    Raises:
        InvalidSpec: nothing is published there, or no vectors are.
    """
    storage, output = output_of(spec)
    seen = bring_up_to_date(storage, ledger_of(spec), output)
    stored = published_schema(seen, replaces=False)
    if stored is None or not seen.files:
        problem = "has no published rows; give the folder in a run's sink.path, or run it"
        raise InvalidSpec.at("output", spec.sink.path, problem)
    refuse_other_sink(spec, [*seen.files])
    schema = pa.ipc.read_schema(pa.py_buffer(stored))
    return PublishedVectors(spec, seen, schema, vector_column(schema, column))


def refuse_other_sink(spec: BatchInferenceSpec, paths: list[str]) -> None:
    """See that the output's files are what the spec's sink writes.

    Args:
        spec: as it is given.
        paths: of the files, in the output's folder.

    Raises:
        InvalidSpec: they are not.
    """
    sink, way_out = spec.sink, "give the spec that published the output"
    for path in paths:
        folders = [*filter(None, folder_names(path.rpartition("/")[0]))]  # Lance has data/
        if not path.endswith(sink.suffix):
            raise InvalidSpec.at("sink.kind", sink.kind, f"does not write {path}: {way_out}")
        if not sink.keeps_partition_columns and folders != [*dict.fromkeys(sink.partition_by)]:
            problem = f"are not the folders of {path}: {way_out}"
            raise InvalidSpec.at("sink.partition_by", sink.partition_by, problem)
