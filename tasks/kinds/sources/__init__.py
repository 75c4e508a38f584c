"""All sources, written out: the union is the contract."""

from tasks.kinds.sources.parquet import ParquetSource
from tasks.kinds.sources.source import Source

AnySource = ParquetSource

__all__ = ["AnySource", "ParquetSource", "Source"]
