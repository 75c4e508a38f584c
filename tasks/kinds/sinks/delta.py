"""Rows as a Delta table."""

from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict

from tasks.errors import InvalidSpec
from tasks.kinds.sinks.table_sink import ParquetTableSink
from tasks.kinds.tables.delta_output import DeltaOutput


class DeltaSink(ParquetTableSink):
    """Publishes into a Delta table, a transaction a run; the table is made where there is none."""

    model_config = ConfigDict(title="Delta table")
    kind: Literal["delta"] = "delta"

    def as_table(self) -> DeltaOutput:
        """The table at the output's path."""
        return DeltaOutput(
            self.path, *self.opened(), self.storage_options, tuple(self.partition_by)
        )

    def check(self) -> None:
        """See that the table, where there is one, is parted as the rows will be.

        Raises:
            InvalidSpec: it is not.
        """
        there = self.as_table().partition_columns()
        if there is not None and there != self.partition_by:
            problem = (
                f"is not what parts the table at {self.path}, {there}: say that, or another path"
            )
            raise InvalidSpec.at("sink.partition_by", self.partition_by, problem)

    def columns(self) -> pa.Schema | None:
        """The table's own; None where there is no table yet."""
        return self.as_table().schema()
