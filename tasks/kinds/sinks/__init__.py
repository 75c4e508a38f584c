"""All sinks, written out: the union is the contract."""

from tasks.kinds.sinks.parquet import ParquetSink
from tasks.kinds.sinks.sink import Sink

AnySink = ParquetSink

__all__ = ["AnySink", "ParquetSink", "Sink"]
