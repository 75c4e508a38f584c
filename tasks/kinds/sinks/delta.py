"""Rows as a Delta table."""

from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict

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

    def columns(self) -> pa.Schema | None:
        """The table's own; None where there is no table yet."""
        return self.as_table().schema()

    def partition_columns(self) -> list[str] | None:
        """What parts the table; None where there is no table yet."""
        return self.as_table().partition_columns()
