"""Rows as a Delta table."""

from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict

from tasks.errors import InvalidSpec, SchemaMismatch
from tasks.kinds.sinks.table_sink import ParquetTableSink
from tasks.kinds.tables.delta_output import DeltaOutput, delta_schema


class DeltaSink(ParquetTableSink):
    """Publishes into a Delta table, one transaction a run; it is created if there is none."""

    model_config = ConfigDict(title="Delta")
    kind: Literal["delta"] = "delta"

    def as_table(self) -> DeltaOutput:
        """The table at the output's path."""
        return DeltaOutput(
            self.path, *self.opened(), self.storage_options, tuple(self.partition_by)
        )

    def check(self) -> None:
        """See that the table, where there is one, takes files as they are written here.

        Raises:
            InvalidSpec: it has features that are not written here, or is parted otherwise.
        """
        self.refuse_obstacle()
        super().check()

    def refuse_obstacle(self) -> None:
        """Refuse a table that files of ours cannot be added to.

        Raises:
            InvalidSpec: says what it has, and the ways out.
        """
        obstacle = self.as_table().obstacle()
        if obstacle:
            problem = f"is a table that {obstacle}: remove that from it, or use another path"
            raise InvalidSpec.at("sink.path", self.path, problem)

    def schema_for(self, rows: pa.Schema) -> pa.Schema:
        """The run's output schema, of the first rows it writes.

        Raises:
            InvalidSpec: the table does not take such rows, or no files of ours any more.
            SchemaMismatch: no table has a type for a column.
        """
        self.refuse_obstacle()
        return super().schema_for(rows)

    def columns(self) -> pa.Schema | None:
        """The table's own; None where there is no table yet."""
        return self.as_table().schema()

    def as_stored(self, schema: pa.Schema) -> pa.Schema:
        """A run's schema in Delta's types.

        Raises:
            SchemaMismatch: it has none for a column, or two columns differ by case only.
        """
        stored = super().as_stored(schema)
        try:
            delta_schema(schema)
        except Exception as error:  # deltalake has no class for it
            raise SchemaMismatch(f"a Delta table cannot have these columns: {error}") from error
        return stored

    def check_names(self, columns: pa.Schema) -> None:
        """See that no two columns differ by case only: to Delta they are the same.

        Raises:
            InvalidSpec: two do.
        """
        names: dict[str, str] = {}
        for name in columns.names:
            other = names.setdefault(name.lower(), name)
            if other != name:
                problem = f"is a table with {other}, so it cannot also have {name}: rename it"
                raise InvalidSpec.at("sink.path", self.path, f"{problem} in a step")

    def partition_columns(self) -> list[str] | None:
        """What parts the table; None where there is no table yet."""
        return self.as_table().partition_columns()
