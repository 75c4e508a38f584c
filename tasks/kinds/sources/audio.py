"""Sound files, one row each; they travel encoded and are decoded where they are used."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.kinds.audio import DEFAULT_RATE, audio_field, seconds_of
from tasks.kinds.extras import require
from tasks.kinds.sources.source import BadRow, Read, Source
from tasks.kinds.sources.whole_file import whole_file
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".aac", ".aif", ".aiff")


class AudioSource(Source):
    """Sound files, one row each: `path`, `audio`, `sampling_rate` and `seconds`."""

    model_config = ConfigDict(title="Audio")
    kind: Literal["audio"] = "audio"
    sampling_rate: int = Field(
        default=DEFAULT_RATE,
        ge=1_000,
        le=384_000,
        description="Samples a second, in Hz, that models and your code get, whatever the files "
        "have: float32, one channel. Speech models want 16000.",
    )
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    one_row_per_file: ClassVar[bool] = True
    has_media: ClassVar[bool] = True
    hides_underscores: ClassVar[bool] = False  # recorders name files so

    def check(self) -> None:
        """See that the decoder is installed."""
        require("source.kind", self.kind, "av", "audio")

    def schema_of_rows(self, pins: dict[str, Any]) -> pa.Schema:
        """The same for all files."""
        return self.row_schema

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the file's row; the sound stays encoded. What is no sound is a bad row."""
        data = whole_file(storage, shard)
        if isinstance(data, BadRow):
            yield data
            return
        try:
            seconds = seconds_of(data)
        except ValueError as error:
            yield BadRow(error)
            return
        values: list[list[Any]] = [
            [storage.url_of(shard.path)],
            [data],
            [self.sampling_rate],
            [seconds],
        ]
        yield pa.table(values, schema=self.row_schema)

    @property
    def row_schema(self) -> pa.Schema:
        """A row's columns; `seconds` is what the file or its packets say, null where none does."""
        return pa.schema(
            [
                pa.field("path", pa.string()),
                audio_field("audio", self.sampling_rate),
                pa.field("sampling_rate", pa.int32()),
                pa.field("seconds", pa.float64()),
            ]
        )
