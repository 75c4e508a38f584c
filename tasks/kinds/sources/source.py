"""What every source does: list its inputs, cut them into shards, read a shard's rows in order."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias

import pyarrow as pa
from pydantic import Field, field_validator

from tasks.kinds.column_types import as_text, plain, text_for_none
from tasks.kinds.filesystem_options import StorageOptions
from tasks.kinds.kind import Kind
from tasks.kinds.placeholders import check_placeholders
from tasks.kinds.sources.listing import list_path, refuse_unlistable
from tasks.kinds.sources.wanted_files import WantedFiles
from tasks.protocol.object_stat import Info, Stat
from tasks.protocol.plan_file import Shard, shard_table, whole_files
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage, open_storage

ROWS_PER_READ, NUMBERS_PER_READ = 2_048, 131_072
"""Of any columns, and of such as are numbers only."""
BYTES_OF_NUMBER = 8
"""At most, in memory."""
BYTES_PER_READ = 32 << 20

REST_OF_FILE = "DamagedFile"
"""Type of the errors of rows that stand for the rest of a file."""


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be read; it takes the next row number. Also stands for a whole bad file."""

    error: Exception
    raw: str = ""
    """What was found there, shortened, for the person who looks into it."""
    is_rest: bool = False
    """Whether it stands for the rest of its file, of which nobody knows how many rows it has."""

    @property
    def error_type(self) -> str:
        """The error's type; of a file's rest one that says so."""
        return REST_OF_FILE if self.is_rest else type(self.error).__name__


Read: TypeAlias = pa.Table | BadRow
Content: TypeAlias = tuple[str, str]
"""An input's path and identity."""


class Source(Kind):
    """Where rows come from."""

    path: str | list[str] = Field(
        title="Path",
        description="File, folder, glob or list of them; local or any URL that fsspec knows, such "
        "as s3://bucket/folder/; with https:// one URL for each file. Folders are searched at any "
        "depth for the endings of this kind, skipping names that start with . or _ (files of "
        "pictures, sounds and videos may start with _); a glob such as data/*.json names others, "
        "or folders if it matches no such file. {scheduled:%Y-%m-%d} stands for the scheduled "
        "time.",
    )
    exclude: list[str] = Field(
        default=[],
        description="Globs, as in tmp/* or tmp/: a file is left out if one matches its name, its "
        "path, or the path's end from some folder on. Tables leave out rows by their filter.",
    )
    storage_options: StorageOptions = Field(
        default={},
        description="Options of the filesystem, such as endpoint_url. Never secrets: those come "
        "from the environment.",
    )
    on_empty: Literal["fail", "succeed"] = Field(
        default="fail", description="What to do if there is nothing at the path."
    )
    shuffle_seed: int | None = Field(
        default=None,
        description="Read files, and parts of big ones, in random order instead of by name, so "
        "that --limit and the first parts of the output hold a bit of everything. The same number "
        "gives the same order.",
    )

    suffixes: ClassVar[tuple[str, ...]]
    """Endings of the names that a folder is searched for; empty: every file."""
    holds: ClassVar[str] = "file"
    """What lies at a path, for messages."""
    hides_underscores: ClassVar[bool] = True
    """Whether files are left out whose names begin with _, as what lies beside tables does."""
    names_tell_all: ClassVar[bool] = True
    """Whether the names of inputs tell where they lie; else those of two places may be alike."""
    tells_of_others: ClassVar[bool] = True
    """Whether files of other endings in its folders may be meant too."""
    one_row_per_file: ClassVar[bool] = False
    reads_on: ClassVar[bool] = False
    """Whether a file is read from its beginning to its end, and the beginning at hardly a cost."""
    looks_at_all: ClassVar[bool] = False
    """Whether to see that an input is as it was takes a look at all of its rows."""
    guesses_types: ClassVar[bool] = False
    """Whether types are what its first values look like, but for those that its `types` gives."""
    way_out_of_changes: ClassVar[str] = ""
    """What helps where an input changes each time that it is read, as the end of a sentence."""
    has_media: ClassVar[bool] = False
    """Whether columns may hold encoded media; their fields say so (tasks/kinds/column_types.py)."""

    @field_validator("path")
    @classmethod
    def _not_empty(cls, path: str | list[str]) -> str | list[str]:
        if not path or (isinstance(path, list) and not all(path)):
            raise ValueError("must name at least one file, folder or glob")
        return path

    @field_validator("path")
    @classmethod
    def _can_be_listed(cls, path: str | list[str]) -> str | list[str]:
        if cls.holds == "file":
            for url in [path] if isinstance(path, str) else path:
                refuse_unlistable(url)
        return path

    @field_validator("path", "exclude")
    @classmethod
    def _known_placeholders(cls, given: str | list[str]) -> str | list[str]:
        for path in [given] if isinstance(given, str) else given:
            check_placeholders(path)
        return given

    @property
    def endings_wanted(self) -> tuple[str, ...]:
        """What a folder is searched for; empty: every file."""
        return self.suffixes

    @property
    def paths(self) -> list[str]:
        """The path as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path)

    @property
    def cut(self) -> Any:
        """What decides which rows an input holds, where its name alone does not; else None.

        Where it has changed since a publication, inputs of then and now cannot be compared.
        """
        return None

    def opened(self, url: str) -> tuple[FsspecStorage, str]:
        """The storage that a path leads to, and the path on it.

        Raises:
            ValueError: no storage is known for the path, or its package is missing.
        """
        return open_storage(url, self.storage_options)

    def as_planned(self, pins: dict[str, Any]) -> Self:
        """The source as a plan has pinned it, where it can change as a whole.

        Args:
            pins: as `pin` gave them; empty where nothing is planned yet.
        """
        return self

    def retyped(self, pins: dict[str, Any]) -> dict[str, Any]:
        """Reader settings of an earlier run, by which the source as it is now reads the same rows.

        Args:
            pins: as `pin` gave them.
        """
        return pins

    @property
    def wanted(self) -> WantedFiles:
        """Which files below a path are inputs."""
        return WantedFiles(self.endings_wanted, self.hides_underscores, self.exclude)

    def found(
        self, storage: FsspecStorage, path: str, wanted: WantedFiles | None = None
    ) -> Iterator[Info]:
        """What lies at one of the paths, as fsspec shows it; `wanted` notes what is no input."""
        return list_path(storage, path, wanted or self.wanted)

    def why_empty(self, storage: FsspecStorage, path: str) -> str | None:
        """Why no input lies at one of the paths, and the way out; None where nobody knows more.

        Args:
            storage: where the path leads.
            path: on it.
        """
        return None

    def check(self) -> None:
        """See that what reading needs is installed.

        Raises:
            InvalidSpec: says what is missing, and the way out.
        """

    def chosen(self, storage: FsspecStorage, inputs: Stats) -> Stats:
        """Those of the files at the paths that are inputs."""
        return inputs

    def left(self, storage: FsspecStorage, inputs: Stats, published: pa.Table) -> Stats:
        """Those of the inputs that are new or have changed since they were published.

        Args:
            storage: where they lie.
            inputs: what lies there now.
            published: path and identity of what is published.
        """
        return inputs.without(published)

    def pin(self, storage: FsspecStorage, inputs: Sequence[Stat]) -> dict[str, Any]:
        """Reader settings that must not change between attempts, e.g. inferred column types.

        Returns:
            What `read` gets as `pins`; can be stored as JSON.
        """
        return {}

    def pin_for_growth(
        self, storage: FsspecStorage, inputs: Sequence[Stat], needed: Collection[str]
    ) -> dict[str, Any]:
        """As `pin`, for an output that takes columns which only some of the inputs have.

        Args:
            storage: where the inputs lie.
            inputs: that are to be read.
            needed: columns that the model or the output cannot do without, of whatever source.
        """
        return self.pin(storage, inputs)

    def schema_of_rows(self, pins: dict[str, Any]) -> pa.Schema | None:
        """Names and types of the columns that rows have; None where only reading them shows it.

        Args:
            pins: as `pin` gave them.
        """
        found = schema_of(pins["schema"]) if pins.get("schema") else ()
        known = map(text_for_none, found)
        fields = [each.with_type(plain(as_text(each.type))) for each in known]
        return pa.schema(fields) if fields else None

    def has_numbers_only(self, pins: dict[str, Any]) -> bool:
        """Whether rows are known to have nothing but numbers, truth values and times.

        Args:
            pins: as `pin` gave them.
        """
        types = schema_of(pins["schema"]).types if pins.get("schema") else []
        return bool(types) and all(map(pa.types.is_primitive, types))

    def shards(self, storage: FsspecStorage, inputs: Stats) -> pa.Table:
        """All inputs cut into shards; their numbers are set later."""
        if type(self).split is Source.split:  # of millions of files none is looked at
            return whole_files(inputs.table, rows=1 if self.one_row_per_file else None)
        cut = (shard for stat in inputs for shard in self.split(storage, stat))
        return shard_table(cut)

    def split(self, storage: FsspecStorage, stat: Stat) -> list[Shard]:
        """Cut an input into shards; their numbers are set later."""
        rows = 1 if self.one_row_per_file else None
        return [Shard(0, stat.path, stat.identity, stat.size, rows=rows)]

    def count_rows(self, storage: FsspecStorage, stat: Stat) -> int | None:
        """Rows of an input, where that is told without reading it; else None."""
        return 1 if self.one_row_per_file else None

    def is_unchanged(self, storage: FsspecStorage, shard: Shard) -> bool:
        """Whether a shard's rows are those that were planned."""
        stat = storage.stat(shard.path)
        return stat is not None and stat.identity == shard.identity

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the shard's rows in order: tables of at most ROWS_PER_READ rows, and bad rows.

        A table may have more rows where it holds at most BYTES_PER_READ.
        Errors of the storage (OSError with an errno, network errors) are raised; what is wrong
        with the data comes as a BadRow, so that every other row is still read.
        """
        raise NotImplementedError


def pins_of(schema: pa.Schema) -> dict[str, Any]:
    """Names and types of rows as `pin` gives them."""
    return {"schema": schema.serialize().to_pybytes().hex()}


def schema_of(held: str) -> pa.Schema:
    """Names and types of rows, as `pin` keeps them: hexadecimal."""
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(held)))
