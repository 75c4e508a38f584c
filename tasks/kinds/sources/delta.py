"""Rows of a Delta table."""

from bisect import bisect_right
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field, model_validator

from tasks.kinds import expression
from tasks.kinds.sources.table import TableSource
from tasks.kinds.sources.table_reading.delta import DeltaVersion
from tasks.kinds.tables.delta import open_delta


class DeltaSource(TableSource):
    """Rows of a Delta table, without those marked as deleted."""

    model_config = ConfigDict(title="Delta")
    kind: Literal["delta"] = "delta"
    version: int | None = Field(
        default=None, ge=0, description="Read this version. Empty: the newest."
    )

    verify_checksums: bool = Field(
        default=True,
        description="Compare checksums of pages, if files have them, with what is read; if one "
        "differs, the rest of the rows of its file is set aside.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.version is not None and self.as_of is not None:
            raise ValueError("set either version or as_of")
        return self

    def open(self) -> DeltaVersion:
        """The version that is asked for; see TableSource."""
        try:
            table = open_delta(self.path, self.storage_options, self.version)
        except LookupError as error:
            raise self.gone("version", error) from error
        found = DeltaVersion(table, self.path.rstrip("/"), self.storage_options, None)
        if self.as_of is not None:
            found = self.as_it_was(found, self.as_of.replace(tzinfo=self.as_of.tzinfo or UTC))
        found.check()
        condition = self.condition_over(found.schema)
        named, doubtful = self.columns_of_filter, self.without_bounds(found.schema)
        return replace(
            found,
            condition=condition,
            named=named,
            doubtful=doubtful,
            verify_checksums=self.verify_checksums,
        )

    def without_bounds(self, schema: pa.Schema) -> frozenset[str]:
        """Columns that may hold NaN, where the filter is true of that: bounds leave it out."""
        if self.filter is None or not expression.denies(self.filter):
            return frozenset()
        named = self.columns_of_filter & set(schema.names)
        return frozenset(e for e in named if pa.types.is_floating(schema.field(e).type))

    def as_it_was(self, found: DeltaVersion, then: datetime) -> DeltaVersion:
        """The last version before a time.

        Not by deltalake 1.6: it goes by when the log's files were written, as to a copy, and takes
        the oldest version where all are younger.

        Raises:
            InvalidSpec: there is none, or not any more.
        """
        num_versions = found.pins["version"] + 1
        at = bisect_right(range(num_versions), then.timestamp(), key=found.committed_at) - 1
        if at < 0 or not found.committed_at(at):
            raise self.gone("as_of", LookupError("the oldest remaining version is newer"))
        try:
            return found.at(at)
        except LookupError as error:
            raise self.gone("as_of", error) from error
