"""Rows of a Lance dataset."""

from dataclasses import replace
from datetime import UTC
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.sources.fitting import DATA_ERRORS
from tasks.kinds.sources.table import TableSource
from tasks.kinds.sources.table_reading.lance import LanceVersion
from tasks.kinds.tables.lance import open_lance


class LanceSource(TableSource):
    """Rows of a Lance dataset, without those that were deleted."""

    model_config = ConfigDict(title="Lance")
    kind: Literal["lance"] = "lance"
    version: int | None = Field(
        default=None, ge=1, description="Read this version. Empty: the newest."
    )

    tag: str | None = Field(
        default=None, min_length=1, description="Read the version that this tag names."
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if sum(each is not None for each in (self.version, self.tag, self.as_of)) > 1:
            raise ValueError("set either version, tag or as_of")
        return self

    def pinned_fields(self, pins: dict[str, Any]) -> dict[str, Any]:
        """The version, whatever the tag names by now."""
        return {"version": pins["version"], "tag": None}

    def check(self) -> None:
        """See that Lance is installed and the filter can be read."""
        require("source.kind", self.kind, "lance", "lance")
        super().check()

    def open(self) -> LanceVersion:
        """The version that is asked for; see TableSource."""
        url = self.path.rstrip("/")
        try:
            dataset = open_lance(url, self.storage_options, self.version or self.tag)
        except LookupError as error:
            raise self.gone("version" if self.version else "tag", error) from error
        found = LanceVersion(dataset, url, self.storage_options, None)
        found = found.at(self.version_then(found)) if self.as_of else found
        found = replace(found, condition=self.condition_over(found.schema))
        if self.filter is not None:
            self.check_filter(found)
        return found

    def check_filter(self, found: LanceVersion) -> None:
        """See that Lance, which takes fewer conditions than Arrow, can read by the filter.

        Raises:
            InvalidSpec: it cannot, or the filter does not fit the columns.
        """
        self.check_columns(found.schema)
        try:
            # Some of what it does not take it says when it has to plan only.
            found.dataset.scanner(filter=found.condition).explain_plan()
        except (*DATA_ERRORS, ValueError) as error:
            problem = f"is not a filter that Lance can use: {' '.join(str(error).split())}; "
            way_out = (
                "compare columns with values of their own type, or choose rows with a filter "
                "step, the only way if any column of the table has a type that Lance cannot "
                "filter, such as large_list, time64 or duration"
            )
            raise InvalidSpec.at("source.filter", self.filter, problem + way_out) from error

    def version_then(self, found: LanceVersion) -> int:
        """The last version before the time that is asked for.

        Raises:
            InvalidSpec: there is none.
        """
        assert self.as_of
        then = self.as_of.replace(tzinfo=self.as_of.tzinfo or UTC)
        # Lance tells local time, without a zone.
        kept = [v for v in found.dataset.versions() if v["timestamp"].astimezone(UTC) <= then]
        if not kept:
            raise self.gone("as_of", LookupError("no version is that old"))
        return max(int(version["version"]) for version in kept)
