"""All sources, written out: the union is the contract."""

from typing import Annotated

from pydantic import Field

from tasks.kinds.form import PickOne
from tasks.kinds.sources.audio import AudioSource
from tasks.kinds.sources.binary import BinarySource
from tasks.kinds.sources.csv import CsvSource
from tasks.kinds.sources.delta import DeltaSource
from tasks.kinds.sources.huggingface_dataset import HuggingFaceDatasetSource
from tasks.kinds.sources.iceberg import IcebergSource
from tasks.kinds.sources.images import ImagesSource
from tasks.kinds.sources.jsonl import JsonlSource
from tasks.kinds.sources.lance import LanceSource
from tasks.kinds.sources.parquet import ParquetSource
from tasks.kinds.sources.source import Source
from tasks.kinds.sources.sql import SqlSource
from tasks.kinds.sources.text import TextSource
from tasks.kinds.sources.video import VideoSource
from tasks.kinds.sources.webdataset import WebdatasetSource

AnySource = Annotated[
    ImagesSource
    | JsonlSource
    | ParquetSource
    | CsvSource
    | TextSource
    | BinarySource
    | AudioSource
    | VideoSource
    | WebdatasetSource
    | HuggingFaceDatasetSource
    | SqlSource
    | DeltaSource
    | IcebergSource
    | LanceSource,
    Field(discriminator="kind"),
    PickOne(),
]

__all__ = [
    "AnySource",
    "AudioSource",
    "BinarySource",
    "CsvSource",
    "DeltaSource",
    "HuggingFaceDatasetSource",
    "IcebergSource",
    "ImagesSource",
    "JsonlSource",
    "LanceSource",
    "ParquetSource",
    "Source",
    "SqlSource",
    "TextSource",
    "VideoSource",
    "WebdatasetSource",
]
