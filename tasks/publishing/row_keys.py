"""The keys of rows, by which a run's rows replace those that are published.

Rows that a step has made of one row, such as the pieces of a text, may have one key: they count as
one, and come and leave together.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.errors import KeysRepeated
from tasks.kinds.sinks import Sink
from tasks.kinds.tables.types import comparable
from tasks.plan import PlannedRun
from tasks.protocol.acceptance import Accepted
from tasks.protocol.ids import Ids, Mask, as_ids
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger_lines import LedgerFile
from tasks.publishing.judging import staged_files
from tasks.publishing.output_rows import READERS, OutputFile, OutputReader
from tasks.ray_job.output_schema import pinned

COMPARED_AT_ONCE = 1 << 20
"""Published rows: for so many, the run's keys are gone through once."""
EXAMPLES = 3
AT, CHOSEN, PARENT = "at", "chosen", "parent"
NO_IDS = as_ids([])


@dataclass(frozen=True)
class RowKeys:
    """What names the rows of a run; its own keys are in memory, published ones are read past."""

    reader: OutputReader
    output: OutputFolder
    staged: list[OutputFile]
    key: list[str]
    newest_by: str | None = None
    ids: Ids = field(default_factory=lambda: NO_IDS)
    """Of the staged rows, in order: of the rows that they were made of."""

    @cached_property
    def own(self) -> pa.Table:
        """The keys of the run's rows, with what tells which of several counts."""
        return self.read(self.staged, self.own_names)

    @property
    def own_names(self) -> list[str]:
        """Columns of the run's own rows that are looked at."""
        order = [self.newest_by] if self.newest_by else []
        return [*self.key, *order]

    @property
    def numbered(self) -> list[str]:
        """Names of the key's columns in here: Arrow would take some, such as "a.b", for paths."""
        return [str(number) for number in range(len(self.key))]

    def read(self, files: list[OutputFile], names: list[str]) -> pa.Table:
        """Some columns of the rows in files, in order; numbered."""
        schema = pa.schema([(n, comparable(self.reader.schema.field(n).type)) for n in names])
        numbers = [str(number) for number in range(len(names))]
        with ThreadPoolExecutor(READERS) as pool:
            tables = pool.map(lambda file: self.read_one(file, schema), files)
            return pa.concat_tables([schema.empty_table(), *tables]).rename_columns(numbers)

    def read_one(self, file: OutputFile, schema: pa.Schema) -> pa.Table:
        """The same of one file; where it is large, no other columns are fetched."""
        pieces = replace(self.reader, names=schema.names).pieces(file, COMPARED_AT_ONCE)
        tables = [rows.select(schema.names).cast(schema) for rows in pieces]
        return pa.concat_tables([schema.empty_table(), *tables])

    @cached_property
    def chosen(self) -> dict[str, Mask]:
        """By staged file, which of its rows are published, where that is not all of them.

        Raises:
            KeysRepeated: says how many keys have several rows, and which, and the ways out.
        """
        if self.newest_by is None:
            self.refuse_repeated(np.ones(len(self.own), dtype=bool))
            return {}
        # Rows in which the column is empty are the oldest.
        order = [(str(len(self.key)), "descending")]
        newest_first = pc.sort_indices(self.own, sort_keys=order)
        rows = self.own.append_column(AT, pa.array(np.arange(len(self.own)))).take(newest_first)
        first = rows.group_by(self.numbered, use_threads=False).aggregate([(AT, "first")])
        newest = np.zeros(len(rows), dtype=bool)
        newest[first[f"{AT}_first"].to_numpy()] = True
        self.refuse_repeated(newest)
        chosen = self.with_siblings(newest)
        masks = zip(self.staged, split(chosen, self.staged), strict=True)
        return {file.path.rpartition("/")[2]: keep for file, keep in masks if not keep.all()}

    def marked(self, rows: Mask) -> pa.Table:
        """The keys with what they were made of, and whether they are among some rows."""
        parents = self.own.append_column(PARENT, pa.array(self.ids))
        return parents.append_column(CHOSEN, pa.array(rows))

    def with_siblings(self, newest: Mask) -> Mask:
        """The newest row of each key, and those of the same key that one row became with it."""
        marked = self.marked(newest).append_column(AT, pa.array(np.arange(len(newest))))
        families = marked.group_by([*self.numbered, PARENT])
        together = families.aggregate([(CHOSEN, "any"), (AT, "list")])
        chosen = together.filter(together[f"{CHOSEN}_any"])[f"{AT}_list"]
        found = np.zeros(len(newest), dtype=bool)
        found[pc.list_flatten(chosen).to_numpy()] = True
        return found

    def refuse_repeated(self, chosen: Mask) -> None:
        """Refuse two rows of one key of which neither is newer; of those that are older, none."""
        counts = (
            self.marked(chosen)
            .group_by(self.own.column_names)
            .aggregate([(PARENT, "min"), (PARENT, "max"), (CHOSEN, "any")])
        )
        are_several = pc.not_equal(counts[f"{PARENT}_min"], counts[f"{PARENT}_max"])
        is_tie = pc.and_(are_several, counts[f"{CHOSEN}_any"])
        repeated = counts.filter(is_tie)
        if not len(repeated):
            return
        first = repeated.slice(0, EXAMPLES).select(self.own.column_names)
        found = first.rename_columns(self.own_names).to_pylist()
        which, way_out = "sink.key", "set sink.newest_by to the column that tells"
        if self.newest_by is not None:
            which, way_out = (
                "sink.key and newest_by",
                "set newest_by to a column that tells them apart",
            )
        raise KeysRepeated(
            f"{which}: {self.own_names} are the same in several rows of this run, "
            f"{counted(len(repeated), 'time')}, such as {found}; nothing was published, since it "
            f"is unknown which one counts: {way_out}, leave one of each in the source, or use "
            "more columns"
        )

    def left(self, files: list[LedgerFile]) -> Iterator[Mask]:
        """Of each published file, which rows have keys that the run does not bring."""
        own = self.own.select(self.numbered)
        for group in groups(files):
            keys = self.read([self.published(file) for file in group], self.key)
            numbered = keys.append_column(AT, pa.array(np.arange(len(keys))))
            found = numbered.join(own, self.numbered, join_type="left semi")
            left = np.ones(len(keys), dtype=bool)
            left[found[AT].to_numpy()] = False
            yield from split(left, group)

    def published(self, file: LedgerFile) -> OutputFile:
        """A published file to be read."""
        folder, slash, _ = file.path.rpartition("/")
        return OutputFile(file.target(self.output), file.rows, folder + slash, file.size)


def split(mask: Mask, files: Sequence[OutputFile | LedgerFile]) -> list[Mask]:
    """A mask of all rows of some files as one for each; of no file there is none."""
    ends = np.cumsum([file.rows for file in files])
    return np.split(mask, ends[:-1]) if len(files) else []


def groups(files: list[LedgerFile]) -> Iterator[list[LedgerFile]]:
    """Files in order, so many at once that their rows are worth it."""
    group: list[LedgerFile] = []
    num_rows = 0
    for file in files:
        group.append(file)
        num_rows += file.rows
        if num_rows >= COMPARED_AT_ONCE:
            yield group
            group, num_rows = [], 0
    if group:
        yield group


def keys_of(
    planned: PlannedRun, accepted: Accepted, named_by: Sink | None = None
) -> RowKeys | None:
    """The keys of a run's rows; None where the spec has no key, or the run no rows.

    Args:
        planned: the run.
        accepted: what its records cover.
        named_by: the sink that has the key, if not the run's own: a preview's writes plain files.
    """
    sink, schema = planned.spec.sink, pinned(planned.storage, planned.run)
    named_by = named_by or sink
    if not named_by.row_key or schema is None:
        return None
    reader = OutputReader(planned.storage, sink, schema, named_by.row_key)
    staged, ids = staged_files(planned.run, accepted), staged_ids(accepted)
    return RowKeys(reader, planned.output, staged, named_by.row_key, named_by.newest, ids)


def staged_ids(accepted: Accepted) -> Ids:
    """Of the rows in the staged files, in order: of the rows that they were made of."""
    files = [file for record in accepted.records for file in record.files]
    return np.concatenate([NO_IDS, *(file.ids.ids() for file in files)])
