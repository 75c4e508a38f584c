"""Data files as pyiceberg lists them in a table, by their footers alone."""

import io
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from tasks.errors import InvalidSpec


@dataclass(frozen=True)
class OnlyFooter:
    """A data file as pyiceberg asks for it, of which nothing but the footer is there."""

    content: bytes
    size: int

    def open(self) -> io.BytesIO:
        """As a file without rows."""
        return io.BytesIO(self.content)

    def __len__(self) -> int:
        """Bytes of the whole file."""
        return self.size


@dataclass(frozen=True)
class KnownFiles:
    """Stands for pyiceberg's files, of which it reads the footers."""

    files: dict[str, OnlyFooter]

    def new_input(self, path: str) -> OnlyFooter:
        """A file to be read."""
        return self.files[path]


def only_footer(file: Any) -> OnlyFooter:
    """Read the footer of one of pyiceberg's files."""
    content = io.BytesIO()
    with file.open() as opened:
        pq.read_metadata(opened).write_metadata_file(content)
    return OnlyFooter(content.getvalue(), len(file))


def data_file(
    files: KnownFiles, metadata: Any, path: str, partition_by: tuple[str, ...], place: str
) -> Any:
    """A file as the table lists it, with bounds of its columns where they can be told.

    Args:
        files: have its footer.
        metadata: the table's.
        path: the file's.
        partition_by: columns that part the table.
        place: where the table lies, as the spec names it.

    Raises:
        InvalidSpec: it is not of one part of the table, which others have parted anew.
    """
    from pyiceberg.io.pyarrow import parquet_file_to_data_file
    from pyiceberg.types import DateType, TimestampType, TimestamptzType

    # pyiceberg knows a file's part by the bounds of its columns, also where nobody wants these.
    metadata = with_metrics(metadata, dict.fromkeys(partition_by, "truncate(16)"))
    try:
        return parquet_file_to_data_file(files, metadata, path)
    except OverflowError:  # times before or after all that Python knows: they are only counted
        schema, times = metadata.schema(), (DateType, TimestampType, TimestamptzType)
        counted = [
            name
            for name in schema.column_names
            if isinstance(schema.find_type(name), times) and name not in partition_by
        ]
        uncounted = with_metrics(metadata, dict.fromkeys(counted, "counts"))
        return parquet_file_to_data_file(files, uncounted, path)
    except ValueError as error:
        problem = (
            f"no longer accepts files of this output ({error}): others have changed how the table "
            f"is partitioned; set its partition spec back to {[*partition_by]} and run again"
        )
        raise InvalidSpec.at("sink.path", place, problem) from error


def with_metrics(metadata: Any, modes: dict[str, str]) -> Any:
    """A table's metadata, by which columns have their bounds told in some mode."""
    from pyiceberg.table import TableProperties

    prefix = TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX
    told = {f"{prefix}.{name}": mode for name, mode in modes.items()}
    return metadata.model_copy(update={"properties": {**metadata.properties, **told}})
