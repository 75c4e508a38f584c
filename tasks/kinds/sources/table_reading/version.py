"""One version of a table, as a store of the data files that are in it then."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from tasks.kinds.sources.table import TableSource

Info = dict[str, Any]


@dataclass(frozen=True)
class TableFile:
    """A data file, or fragment, and what is deleted from it."""

    path: str
    identity: str
    """Changes when its rows do: a data file is written once, but rows are deleted from it."""
    size: int
    rows: int | None
    """Rows to be read; None where only reading tells."""


class DataFiles(Protocol):
    """Some data files of a table."""

    def files(self) -> list[TableFile]:
        """All of them; of a table with a condition, those that may hold rows it is true for."""


class TableVersion(DataFiles, Protocol):
    """A table at one version; a condition chooses among its files and rows."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of its columns."""

    @property
    def pins(self) -> dict[str, Any]:
        """What opens it again, also from another node; can be stored as JSON."""

    def read(self, path: str, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of one of the files in order, without those that are deleted, of some columns."""

    def rewrites(self) -> Iterator[tuple[DataFiles, DataFiles]]:
        """Commits that moved rows to other files and changed none: before and after, by age.

        Of files that are in both nothing need be said.
        """


@dataclass(frozen=True)
class TableFiles:
    """It has the few methods of fsspec's filesystems that listing and reading need."""

    source: "TableSource"

    protocol: ClassVar[str] = "table"

    @cached_property
    def version(self) -> TableVersion:
        """The version, opened once.

        Raises:
            InvalidSpec: there is no such version, or it lacks a column that the spec names.
        """
        version = self.source.open()
        self.source.check_columns(version.schema)
        return version

    @cached_property
    def infos(self) -> dict[str, Info]:
        """Its files as a filesystem shows them, by path."""
        return {
            file.path: {
                "name": file.path,
                "size": file.size,
                "type": "file",
                "etag": file.identity,
                "rows": file.rows,
            }
            for file in self.version.files()
        }

    def find(self, path: str, detail: bool = True) -> dict[str, Info]:
        """All of them, as a dictionary of the caller's own."""
        return dict(self.infos)

    def info(self, path: str) -> Info:
        """One of them; or the table, where its path is asked for.

        Raises:
            FileNotFoundError: it is not in this version, or there is no such table.
        """
        if path == self.source.path:
            assert self.version
            return {"name": path, "size": 0, "type": "directory"}
        if path not in self.infos:
            raise FileNotFoundError(path)
        return self.infos[path]

    def invalidate_cache(self) -> None:
        """A version never changes."""

    def unstrip_protocol(self, path: str) -> str:
        """A path as people read it; of the table, its URL."""
        return self.source.url if path == self.source.path else path

    def _strip_protocol(self, path: str) -> str:
        """The same."""
        return path
