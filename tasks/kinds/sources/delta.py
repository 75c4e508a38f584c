"""Rows of a Delta table."""

from dataclasses import replace
from datetime import UTC
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tasks.kinds.sources.table import TableSource
from tasks.kinds.sources.table_reading.delta import DeltaVersion
from tasks.kinds.tables.delta import open_delta


class DeltaSource(TableSource):
    """Rows of a Delta table, those marked as deleted left out."""

    model_config = ConfigDict(title="Delta table")
    kind: Literal["delta"] = "delta"
    version: int | None = Field(
        default=None, ge=0, description="Read this version; the newest where empty."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.version is not None and self.as_of is not None:
            raise ValueError("name either version or as_of")
        return self

    def open(self) -> DeltaVersion:
        """The version that is asked for; see TableSource."""
        try:
            table = open_delta(self.path, self.storage_options, self.version)
        except LookupError as error:
            raise self.gone("version", error) from error
        if self.as_of is not None:
            table.load_as_version(self.as_of.replace(tzinfo=self.as_of.tzinfo or UTC))
        found = DeltaVersion(table, self.path.rstrip("/"), self.storage_options, None)
        found.check()
        self.check_age(found)
        condition = self.condition_over(found.schema)
        return replace(found, condition=condition, named=self.columns_of_filter)

    def check_age(self, found: DeltaVersion) -> None:
        """See that the version is as old as asked for; deltalake takes the oldest that is left.

        Raises:
            InvalidSpec: it is younger.
        """
        if self.as_of is None:
            return
        then = self.as_of.replace(tzinfo=self.as_of.tzinfo or UTC).timestamp() * 1000
        commit = found.commit(found.pins["version"])
        if any(
            line["commitInfo"].get("timestamp", 0) > then for line in commit if "commitInfo" in line
        ):
            raise self.gone("as_of", LookupError("the oldest version left is younger"))
