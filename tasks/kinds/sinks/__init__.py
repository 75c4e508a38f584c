"""All sinks, written out: the union is the contract."""

from typing import Annotated

from pydantic import Field

from tasks.kinds.form import PickOne
from tasks.kinds.sinks.csv import CsvSink
from tasks.kinds.sinks.delta import DeltaSink
from tasks.kinds.sinks.iceberg import IcebergSink
from tasks.kinds.sinks.jsonl import JsonlSink
from tasks.kinds.sinks.lance import LanceSink
from tasks.kinds.sinks.parquet import ParquetSink
from tasks.kinds.sinks.sink import Sink

AnySink = Annotated[
    JsonlSink | ParquetSink | CsvSink | LanceSink | DeltaSink | IcebergSink,
    Field(discriminator="kind"),
    PickOne(),
]

__all__ = [
    "AnySink",
    "CsvSink",
    "DeltaSink",
    "IcebergSink",
    "JsonlSink",
    "LanceSink",
    "ParquetSink",
    "Sink",
]
