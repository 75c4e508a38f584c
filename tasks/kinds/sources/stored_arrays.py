"""Columns of arrays as Ray Data writes them to Parquet: flat, their shape beside them.

Arrow knows Ray's types only where Ray Data has been imported: what a plan would read flat, a worker
would read as arrays, or not at all where Ray had pickled the shapes (2.49 to 2.54). Here they are
read as they are stored, wherever that is, and given their shape.
"""

import io
import json
import math
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, Never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.column_types import is_deep, is_list, is_plain_number, plain
from tasks.kinds.tensors import is_tensor, tensor_array

RAYS_TYPES = "ray.data._internal.tensor_extensions.arrow"
"""The module that tells Arrow of them."""
NAME, NOTE = b"ARROW:extension:name", b"ARROW:extension:metadata"
SAME_SHAPE = ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2", "arrow.fixed_shape_tensor")
ANY_SHAPE = "ray.data.arrow_variable_shaped_tensor"
TENSOR = tensor_array([]).type
ONE_AT_A_TIME = RLock()


class NoObjects(pickle.Unpickler):
    """Reads what is built of numbers alone; nothing is imported or called for that."""

    def find_class(self, module: str, name: str) -> Never:
        """Refuse whatever needs code.

        Raises:
            pickle.UnpicklingError: it does.
        """
        raise pickle.UnpicklingError(f"{module}.{name} is no number")


@contextmanager
def as_stored() -> Iterator[None]:
    """Have Arrow read columns of Ray's types as if Ray Data had not been imported."""
    with ONE_AT_A_TIME:
        known = [each for each in types_of_ray() if forgotten(each)]
        try:
            yield
        finally:
            for each in known:
                pa.register_extension_type(each)


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
    kind, note = each.type, each.metadata or {}
    is_known = isinstance(kind, pa.BaseExtensionType)
    name = kind.extension_name if is_known else note.get(NAME, b"").decode()
    if name == ANY_SHAPE and is_plain_number(kind.field("data").type.value_type):
        return TENSOR
    if name not in SAME_SHAPE:
        return plain(kind)
    number = plain(kind.value_type)
    shape = shape_of(kind) if is_known else shape_noted(note)
    if shape is None or len(shape) < 2 or not (is_plain_number(number) or number == pa.bool_()):
        return pa.list_(number)
    for side in reversed(shape):
        number = pa.list_(number, side)
    return number


def shape_of(kind: pa.FixedShapeTensorType) -> list[int] | None:
    """That of each array of Arrow's own type; None where its sides are in another order."""
    in_order = kind.permutation in (None, sorted(kind.permutation or ()))
    return list(kind.shape) if in_order else None


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


def in_shape(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in which arrays that are stored flat have the shapes that a schema wants.

    Raises:
        pyarrow.ArrowInvalid: one has another number of numbers.
    """
    for at, name in enumerate(rows.column_names):
        column = storage_of(rows[name])
        wanted = schema.field(name).type
        if is_deep(wanted) and column.type != wanted and not is_deep(column.type):
            column = tensors(column) if is_tensor(wanted) else shaped(column, wanted)
        rows = rows.set_column(at, name, column)
    return rows


def storage_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of Arrow's own arrays as what they are stored as; any other as it is."""
    kind = column.type
    if not isinstance(kind, pa.FixedShapeTensorType):
        return column
    return pa.chunked_array([each.storage for each in column.chunks], kind.storage_type)


def shaped(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Flat lists as arrays of one shape; what is no flat list is left to Arrow.

    Raises:
        pyarrow.ArrowInvalid: one is of another length.
    """
    shape, number = [], wanted
    while pa.types.is_fixed_size_list(number):
        shape.append(number.list_size)
        number = number.value_type
    is_flat = is_list(column.type) or pa.types.is_fixed_size_list(column.type)
    if not is_flat or not pa.types.is_primitive(column.type.value_type):
        return column
    present = column.drop_null().combine_chunks()
    lengths = pc.unique(pc.list_value_length(present)).to_pylist()
    if lengths not in ([], [math.prod(shape)]):
        problem = f"arrays of {' x '.join(map(str, shape))} are wanted, of {math.prod(shape)}"
        raise pa.ArrowInvalid(f"{problem} numbers, and there are some of {lengths}")
    made = present.flatten()
    for side in reversed(shape):
        made = pa.FixedSizeListArray.from_arrays(made, side)
    places = iter(range(len(present)))
    order = [next(places) if there else None for there in column.is_valid().to_pylist()]
    return pa.chunked_array([made.take(pa.array(order, pa.int64()))])


def tensors(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Arrays of differing shapes, of Ray's form, in ours."""
    number = np.dtype(column.type.field("data").type.value_type.to_pandas_dtype())
    arrays = [
        None if each is None else np.asarray(each["data"], number).reshape(each["shape"])
        for each in column.to_pylist()
    ]
    return pa.chunked_array([tensor_array(arrays)])
