"""Rows of datasets that `datasets` wrote to disk; no line of that library runs."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.sources.fitting import DATA_ERRORS, cast, conformed, data_error
from tasks.kinds.sources.hf_dataset.features import converted, features_of, field_of
from tasks.kinds.sources.hf_dataset.folder import data_files, is_empty, splits
from tasks.kinds.sources.linked_files import without_links
from tasks.kinds.sources.source import ROWS_PER_READ, BadRow, Read, Source, pins_of, schema_of
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage

END_MARK = b"\xff\xff\xff\xff\0\0\0\0"


class CutOffFile(ValueError):
    """An Arrow file has no end; rows may be missing."""


class HuggingFaceDatasetSource(Source):
    """Rows of a dataset written by `save_to_disk`.

    Images and sound stay encoded until they are used, sound then at the rate that the dataset
    names, otherwise 16000 Hz; labels are given by name. What is inside lists is read as it is
    stored.
    """

    model_config = ConfigDict(title="HF dataset")
    kind: Literal["huggingface_dataset"] = "huggingface_dataset"
    split_name: str | None = Field(
        default=None,
        description="For a DatasetDict, the split to read, as in test. Empty for a Dataset.",
    )
    columns: list[str] | None = Field(
        default=None, description="Read only these columns. Empty: all."
    )
    suffixes: ClassVar[tuple[str, ...]] = (".arrow",)
    tells_of_others: ClassVar[bool] = False
    reads_on: ClassVar[bool] = True
    has_media: ClassVar[bool] = True

    def chosen(self, storage: FsspecStorage, inputs: Stats) -> Stats:
        """The dataset's own files, of the split asked for.

        Raises:
            InvalidSpec: the path holds no dataset, or several splits and none is asked for.
            InputNotFound: the dataset lacks one of its files, or the path has nothing of the split.
        """
        listed = {stat.path for stat in inputs}
        folders = self.folders(storage, listed)
        asked_for = [folder for folder in folders if self.is_asked_for(storage, folder)]
        if folders and not asked_for and self.on_empty == "fail":
            there = ", ".join(os.path.basename(folder) for folder in folders)
            problem = f"has no rows at source.path, which has {there}: correct one of the two"
            raise InputNotFound.at("source.split_name", self.split_name, problem)
        wanted: set[str] = set()
        for folder in asked_for:
            for path in data_files(storage, folder):
                place = without_links(storage, path)
                # Each look takes a store's answer: only what is excluded is looked at by itself.
                if place not in listed and storage.stat(path) is None:
                    problem = "is listed in the dataset's state.json but does not exist"
                    raise InputNotFound.at("source.path", path, problem)
                wanted.add(place)
        return Stats.of(stat for stat in inputs if stat.path in wanted)

    def why_empty(self, storage: FsspecStorage, path: str) -> str | None:
        """See Source: of no rows `save_to_disk` writes no file."""
        parent = path.rstrip("/")
        names = splits(storage, parent)
        folders = [parent] if names is None else [f"{parent}/{name}" for name in names]
        if folders and all(is_empty(storage, folder) for folder in folders):
            return "is a dataset without rows: save one with rows, or set source.on_empty: succeed"
        return None

    def left(self, storage: FsspecStorage, inputs: Stats, published: pa.Table) -> Stats:
        """See Source.

        Raises:
            InvalidSpec: the dataset was saved anew, which puts all of its rows into other files.
        """
        left, there = super().left(storage, inputs, published), {stat.path for stat in inputs}
        folders = {os.path.dirname(path) for path in there}
        known = published["path"].to_pylist() if len(left) else []
        gone = [path for path in known if os.path.dirname(path) in folders and path not in there]
        if gone:
            problem = (
                f"was saved again after its rows were published: {gone[0]} is no longer a file of "
                "it, and its rows would be published twice. Run with --replace-output, which "
                "predicts the dataset as it is now, or set sink.mode: replace to do so each time"
            )
            raise InvalidSpec.at("source.path", self.path, problem)
        return left

    def folders(self, storage: FsspecStorage, inputs: set[str]) -> dict[str, None]:
        """Folders of datasets: where inputs are links, as in the Hub's cache, where these lie."""
        paths = (self.opened(url)[1] for url in self.paths)
        names = (info["name"] for path in paths for info in self.found(storage, path))
        there = (name for name in names if without_links(storage, name) in inputs)
        return dict.fromkeys(map(os.path.dirname, there))

    def is_asked_for(self, storage: FsspecStorage, folder: str) -> bool:
        """Whether a dataset is of the split to be read, or no split.

        Raises:
            InvalidSpec: it is one of several and none is asked for, or none of that name.
        """
        parent, name = os.path.split(folder)
        found = splits(storage, parent)
        if found is None:
            if self.split_name is not None:
                problem = f"there are no splits in {parent}; leave it empty for a Dataset"
                raise InvalidSpec.at("source.split_name", self.split_name, problem)
            return True
        if self.split_name is None and folder in [self.opened(url)[1] for url in self.paths]:
            return True
        if self.split_name not in found:
            raise InvalidSpec.at(
                "source.split_name", self.split_name, f"must be one of {', '.join(found)}"
            )
        return name == self.split_name

    def pin(self, storage: FsspecStorage, inputs: Sequence[Stat]) -> dict[str, Any]:
        """Take names and types from the first file that can be read.

        Raises:
            InvalidSpec: one of `columns` is not in it.
        """
        for stat in inputs:
            with storage.open(stat.path) as file:
                try:
                    schema = self.row_schema(stream_of(file, stat.size).schema)
                except DATA_ERRORS as error:
                    data_error(error)  # reading it says what is wrong
                    continue
            return pins_of(schema)
        return {"schema": None}

    def row_schema(self, found: pa.Schema) -> pa.Schema:
        """Names and types of rows, from those of a file.

        Raises:
            InvalidSpec: one of `columns` is not in it.
            pyarrow.ArrowInvalid: what it notes of its columns is damaged.
        """
        names = list(dict.fromkeys(self.columns or found.names))
        if missing := [name for name in names if name not in found.names]:
            known = f"the columns of the dataset: {', '.join(found.names)}"
            raise InvalidSpec.at("source.columns", missing, f"is not among {known}")
        features = features_of(found)
        return pa.schema([field_of(found.field(name), features.get(name)) for name in names])

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the rows; where the file breaks off, a bad row."""
        with storage.open(shard.path) as file:
            try:
                reader = stream_of(file, shard.size)
                schema = pinned_schema(pins) or self.row_schema(reader.schema)
                fit = partial(fitted, schema, features_of(reader.schema))
                for batch in reader:
                    yield from rows_of(batch, fit)
                see_that_it_ended(file, shard.size)
            except (*DATA_ERRORS, CutOffFile) as error:
                yield BadRow(data_error(error), is_rest=True)


def stream_of(file: IO[bytes], size: int) -> pa.RecordBatchStreamReader:
    """A file's batches; damaged lengths ask for no more bytes than it has."""
    return pa.ipc.open_stream(pa.PythonFile(file, "r").get_stream(0, size))


def pinned_schema(pins: dict[str, Any]) -> pa.Schema | None:
    """Names and types of rows, media among them; None where no file told them."""
    held = pins["schema"]
    return None if held is None else schema_of(held)


def rows_of(batch: pa.RecordBatch, fit: Callable[[pa.Table], pa.Table]) -> Iterator[Read]:
    """A batch's rows; where its bytes are damaged, so many bad ones."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        yield from [BadRow(error)] * len(batch)
        return
    rows = pa.Table.from_batches([batch])
    for start in range(0, len(rows), ROWS_PER_READ):
        yield from conformed(rows.slice(start, ROWS_PER_READ), fit)


def fitted(schema: pa.Schema, features: dict[str, Any], rows: pa.Table) -> pa.Table:
    """Rows of a file with the pinned names and types.

    Raises:
        ValueError: a value does not fit.
    """
    wanted = {*schema.names}
    for at, name in enumerate(rows.column_names):
        if name in wanted:
            rows = rows.set_column(at, name, converted(rows[name], features.get(name)))
    return pa.table([cast(rows, each) for each in schema], schema=schema)


def see_that_it_ended(file: IO[bytes], size: int) -> None:
    """See that what was read ends with a mark, and the file with it; Arrow takes any end.

    Raises:
        CutOffFile: it does not.
    """
    at = file.tell()
    file.seek(max(0, at - len(END_MARK)))
    if file.read(len(END_MARK)) != END_MARK or at != size:
        raise CutOffFile("the file has no end mark, or data after it: rows may be missing")
