"""Columns of arrays as Ray Data writes them to Parquet: flat, their shape beside them.

Arrow knows Ray's types only where Ray Data has been imported: what a plan would read flat, a worker
would read as arrays, or not at all where Ray had pickled the shapes (2.49 to 2.54). Here they are
read as they are stored, wherever that is, and given their shape.
"""

import io
import json
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.kinds import lossless
from tasks.kinds.column_types import is_list, is_plain_number, plain
from tasks.kinds.mixed_tensors import tensors_of
from tasks.kinds.tensors import TENSOR, is_tensor, tensor_array

RAYS_TYPES = "ray.data._internal.tensor_extensions.arrow"
"""The module that tells Arrow of them."""
NAME, NOTE = b"ARROW:extension:name", b"ARROW:extension:metadata"
SAME_SHAPE = ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2")
ANY_SHAPE = "ray.data.arrow_variable_shaped_tensor"
ARRAYS, SHAPES = "data", "shape"
"""What those of any shape are stored as: flat lists, and the shape of each."""


class NoObjects(pickle.Unpickler):
    """Reads what is built of numbers alone; nothing is imported or called for that."""

    def find_class(self, module: str, name: str) -> Never:
        """Refuse whatever needs code.

        Raises:
            pickle.UnpicklingError: it does.
        """
        raise pickle.UnpicklingError(f"{module}.{name} is not a number")


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
    if name == ANY_SHAPE and has_any_shape(kind):
        return TENSOR
    shape = shape_noted(each.metadata) if name in SAME_SHAPE else None
    if shape is None or len(shape) < 2 or not has_numbers(kind.value_type):
        return plain(kind)
    return pa.fixed_shape_tensor(kind.value_type, shape)


def is_of_one_shape(kind: pa.DataType) -> bool:
    """Whether a type is of arrays that are all of one shape."""
    return isinstance(kind, pa.FixedShapeTensorType)


def has_any_shape(kind: pa.DataType) -> bool:
    """Whether a column may be one of arrays of any shape, as Ray stores them."""
    names = [each.name for each in kind] if pa.types.is_struct(kind) else []
    if names != [ARRAYS, SHAPES]:
        return False
    arrays, shapes = (each.type for each in kind)
    are_lists = is_list(arrays) and is_list(shapes) and pa.types.is_integer(shapes.value_type)
    return are_lists and has_numbers(arrays.value_type)


def for_both(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type for arrays of two files: of any shape where theirs differ, else the first's.

    Ray writes arrays that happen to be of one shape as such, file by file.
    """
    are_arrays = all(is_tensor(each) or is_of_one_shape(each) for each in (kind, other))
    differ = are_arrays and getattr(kind, "shape", None) != getattr(other, "shape", None)
    return TENSOR if differ else kind


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


def in_shape(
    column: pa.ChunkedArray, note: Mapping[bytes, bytes] | None, wanted: pa.DataType
) -> pa.ChunkedArray:
    """Stored arrays in one shape, or each in its own, as is wanted; other columns as they are.

    Args:
        column: as it is stored.
        note: what its file notes of it.
        wanted: the type in rows.

    Raises:
        pyarrow.ArrowInvalid: one is of another length, or of what cannot be had as those numbers.
    """
    if has_any_shape(column.type):
        flat, shapes = (pc.struct_field(column, each) for each in (ARRAYS, SHAPES))
        if is_tensor(wanted):
            return tensors(flat, shapes.to_pylist())
        if is_of_one_shape(wanted):
            refuse_others(shapes.to_pylist(), wanted.shape)
            column = flat
    if is_tensor(wanted) and is_of_one_shape(column.type):
        return tensors_of(column)
    if is_tensor(wanted) and is_list(column.type) and (shape := shape_noted(note or {})):
        return tensors(column, [shape] * len(column))
    if not (is_list(column.type) and is_of_one_shape(wanted)):
        return column
    flat = lossless.cast(column, wanted.storage_type)
    made = [pa.ExtensionArray.from_storage(wanted, each) for each in flat.chunks]
    return pa.chunked_array(made, wanted)


def tensors(flat: pa.ChunkedArray, shapes: Iterable[Sequence[int] | None]) -> pa.ChunkedArray:
    """Flat lists as arrays of differing shapes.

    Raises:
        pyarrow.ArrowInvalid: a list does not fill its shape, or a number in it is missing.
    """
    made = [
        array_in(each.values, shape) if each.is_valid else None
        for each, shape in zip(flat, shapes, strict=True)
    ]
    return pa.chunked_array([tensor_array(made)])


def array_in(values: pa.Array, shape: Sequence[int] | None) -> np.ndarray:
    """A flat list in its shape.

    Raises:
        pyarrow.ArrowInvalid: it does not fill it, or a number is missing.
    """
    try:
        if values.null_count or shape is None or min(shape, default=0) < 0:
            raise ValueError
        return values.to_numpy(zero_copy_only=False).reshape(shape)
    except (ValueError, TypeError) as error:
        there = len(values) - values.null_count
        problem = f"an array of shape {shape} has {counted(there, 'number')}"
        raise pa.ArrowInvalid(problem) from error


def refuse_others(shapes: Iterable[Sequence[int] | None], wanted: Sequence[int]) -> None:
    """See that arrays are of one shape.

    Raises:
        pyarrow.ArrowInvalid: one is of another.
    """
    for shape in shapes:
        if shape not in (None, [*wanted]):
            raise pa.ArrowInvalid(f"an array of shape {shape}, but the first files have {wanted}")
