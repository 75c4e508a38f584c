"""Columns of arrays as Ray Data writes them to Parquet: flat, their shape beside them.

Arrow knows Ray's types only where Ray Data has been imported: what a plan would read flat, a worker
would read as arrays, or not at all where Ray had pickled the shapes (2.49 to 2.54). Here they are
read as they are stored, wherever that is, and given their shape.
"""

import io
import json
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Never

import pyarrow as pa

from tasks.kinds import lossless
from tasks.kinds.column_types import is_list, is_plain_number, plain

RAYS_TYPES = "ray.data._internal.tensor_extensions.arrow"
"""The module that tells Arrow of them."""
NAME, NOTE = b"ARROW:extension:name", b"ARROW:extension:metadata"
SAME_SHAPE = ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2")


class NoObjects(pickle.Unpickler):
    """Reads what is built of numbers alone; nothing is imported or called for that."""

    def find_class(self, module: str, name: str) -> Never:
        """Refuse whatever needs code.

        Raises:
            pickle.UnpicklingError: it does.
        """
        raise pickle.UnpicklingError(f"{module}.{name} is no number")


@dataclass
class Forgotten:
    """Ray's types while Arrow does not know them: until the last of those who read is done."""

    types: list[Any] = field(default_factory=list)
    readers: int = 0
    changing: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        """Somebody reads."""
        with self.changing:
            if not self.readers:
                self.types = [each for each in types_of_ray() if forgotten(each)]
            self.readers += 1

    def end(self) -> None:
        """Somebody is done."""
        with self.changing:
            self.readers -= 1
            for each in self.types if not self.readers else ():
                pa.register_extension_type(each)


FORGOTTEN = Forgotten()


@contextmanager
def as_stored() -> Iterator[None]:
    """Have Arrow read columns of Ray's types as if Ray Data had not been imported."""
    FORGOTTEN.begin()
    try:
        yield
    finally:
        FORGOTTEN.end()


def types_of_ray() -> list[Any]:
    """One of each of Ray's types, where it has been imported whole."""
    ray: Any = sys.modules.get(RAYS_TYPES)
    if not hasattr(ray, "ArrowVariableShapedTensorType"):
        return []
    number = pa.int64()  # of which number, and of how many, Arrow does not ask
    fixed = [kind((0,), number) for kind in (ray.ArrowTensorType, ray.ArrowTensorTypeV2)]
    return [*fixed, ray.ArrowVariableShapedTensorType(number, 0)]


def forgotten(kind: Any) -> bool:
    """Have Arrow forget a type; False where it does not know it."""
    try:
        pa.unregister_extension_type(kind.extension_name)
    except pa.ArrowKeyError:
        return False
    return True


def type_in_rows(each: pa.Field) -> pa.DataType:
    """The type of a file's column in rows: arrays have their shape, and others are plain."""
    kind, name = each.type, (each.metadata or {}).get(NAME, b"").decode()
    shape = shape_noted(each.metadata) if name in SAME_SHAPE else None
    if shape is None or len(shape) < 2 or not has_numbers(kind.value_type):
        return plain(kind)
    return pa.fixed_shape_tensor(kind.value_type, shape)


def has_numbers(kind: pa.DataType) -> bool:
    """Whether arrays of a type are of numbers or truth values."""
    return is_plain_number(kind) or bool(pa.types.is_boolean(kind))


def shape_noted(note: Mapping[bytes, bytes]) -> list[int] | None:
    """That of each array of a column, as Ray has noted it; None where it cannot be read."""
    try:
        found = json.loads(note.get(NOTE, b""))
    except ValueError:
        try:
            found = NoObjects(io.BytesIO(note.get(NOTE, b""))).load()
        except Exception:  # of many kinds, as a pickle can be broken in many ways
            return None
    is_shape = isinstance(found, (list, tuple)) and all(isinstance(side, int) for side in found)
    return [*found] if is_shape and min(found, default=0) > 0 else None


def in_shape(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Flat lists as arrays of one shape, where those are wanted; other columns as they are.

    Raises:
        pyarrow.ArrowInvalid: one is of another length, or of what cannot be had as those numbers.
    """
    if not (is_list(column.type) and isinstance(wanted, pa.FixedShapeTensorType)):
        return column
    flat = lossless.cast(column, wanted.storage_type)
    made = [pa.ExtensionArray.from_storage(wanted, each) for each in flat.chunks]
    return pa.chunked_array(made, wanted)
