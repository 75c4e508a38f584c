"""What storage knows about many objects, as columns: a quarter of the memory of an object each."""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from tasks.protocol.columns import objects_of, table_of
from tasks.protocol.object_stat import Stat
from tasks.protocol.texts import in_order, large

SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64()), ("identity", pa.string())])


class Stats(Sequence[Stat]):
    """Stats in an Arrow table; they become objects only one by one."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @classmethod
    def of(cls, stats: Iterable[Stat]) -> "Stats":
        """Gather them, in their order."""
        return cls(table_of(stats, SCHEMA))

    @classmethod
    def by_path(cls, several: Iterable["Stats"]) -> "Stats":
        """All of them by path, each path once."""
        table = pa.concat_tables([SCHEMA.empty_table(), *(stats.table for stats in several)])
        paths = table["path"]
        if pc.all(pc.less(paths[:-1], paths[1:])).as_py() is not False:
            return cls(table)  # as object stores list
        table = in_order(table, pc.sort_indices(large(table["path"])).to_numpy())
        paths = table["path"]
        differs = pc.not_equal(paths[1:], paths[:-1]).combine_chunks()
        return cls(table.filter(pa.concat_arrays([pa.array([True]), differs])))

    @overload
    def __getitem__(self, at: int) -> Stat: ...

    @overload
    def __getitem__(self, at: slice) -> "Stats": ...

    def __getitem__(self, at: int | slice) -> "Stat | Stats":
        """One of them, or some."""
        if isinstance(at, int):
            return Stat(**self.table.slice(range(len(self))[at], 1).to_pylist()[0])
        start, stop, step = at.indices(len(self))
        assert step == 1, "every item of a range is taken"
        return Stats(self.table.slice(start, max(0, stop - start)))

    def __iter__(self) -> Iterator[Stat]:
        """One by one."""
        return objects_of(self.table, Stat)

    def __len__(self) -> int:
        """How many."""
        return len(self.table)

    def without(self, published: pa.Table) -> "Stats":
        """Those that are not published with the identity that they have.

        Args:
            published: path and identity of inputs, a path with one identity only.
        """
        at = pc.index_in(large(self.table["path"]), large(published["path"]))
        identities = large(published["identity"]).take(at)
        is_new = pc.not_equal(identities, large(self.table["identity"])).fill_null(True)
        return Stats(self.table.filter(is_new))
