"""Columns of a dataset's Arrow files as rows have them: images and sound encoded, labels by name.

A file says itself what its columns are, in the metadata of its schema.
"""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.audio import DEFAULT_RATE, audio_field
from tasks.kinds.column_types import IMAGE, MEDIA

METADATA = b"huggingface"
NO_LABEL = -1


def features_of(schema: pa.Schema) -> dict[str, Any]:
    """What `datasets` notes of each column; empty where something else wrote the file.

    Raises:
        pyarrow.ArrowInvalid: the note is damaged.
    """
    try:
        held = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
    except ValueError as error:
        raise pa.ArrowInvalid(f"the file's notes on its columns are not JSON: {error}") from error
    match held:
        case {"info": {"features": dict(features)}}:
            return features
    return {}


def field_of(each: pa.Field, feature: Any) -> pa.Field:
    """A column's name and type in rows."""
    match feature:
        case {"_type": "Image"}:
            return pa.field(each.name, pa.binary(), metadata={MEDIA: IMAGE})
        case {"_type": "Audio"}:
            return audio_field(each.name, feature.get("sampling_rate") or DEFAULT_RATE)
        case {"_type": "ClassLabel"}:
            return pa.field(each.name, pa.string())
    kind = each.type.storage_type if isinstance(each.type, pa.BaseExtensionType) else each.type
    return pa.field(each.name, pa.string() if pa.types.is_null(kind) else kind)


def converted(column: pa.ChunkedArray, feature: Any) -> pa.ChunkedArray:
    """A column as rows have it.

    Raises:
        ValueError: an image or sound lies outside the dataset, or a label has no name.
    """
    match feature:
        case {"_type": "Image" | "Audio"}:
            return embedded(column)
        case {"_type": "ClassLabel", "names": [*names]}:
            return named(column, names)
    if isinstance(column.type, pa.BaseExtensionType):
        storages = [chunk.storage for chunk in column.chunks]
        return pa.chunked_array(storages, column.type.storage_type)
    return column


def embedded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The bytes of files.

    Raises:
        ValueError: of one there is only the path.
    """
    data, paths = pc.struct_field(column, "bytes"), pc.struct_field(column, "path")
    outside = pc.and_(pc.is_null(data), pc.is_valid(paths))
    if pc.any(outside).as_py():
        path = paths.filter(outside)[0]
        raise ValueError(
            f"the file {path} is not in the dataset, only its path: save it with save_to_disk, "
            "which includes files"
        )
    return data


def named(column: pa.ChunkedArray, names: list[str]) -> pa.ChunkedArray:
    """Labels by their names; `datasets` writes -1 where there is none.

    Raises:
        ValueError: a label has no name.
    """
    numbers = pc.if_else(pc.equal(column, NO_LABEL), None, column)
    unknown = numbers.filter(pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, len(names))))
    if len(unknown):
        raise ValueError(f"the label {unknown[0]} has no name: there are {len(names)} names")
    return pa.chunked_array([pa.array(names, pa.string())]).take(numbers)
