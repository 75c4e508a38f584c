"""Arrays that user code returned, NumPy's and other libraries', as Arrow has them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.tensors import tensor_array

MAY_HOLD = (np.ndarray, list, tuple, dict)
ARRAYS_WITHIN = (Mapping, np.ndarray)
"""In lists of these there may be arrays; to look at each number of others takes longer than all."""


def as_numpy(value: Any) -> Any:
    """The numbers of a tensor of torch's, JAX's or TensorFlow's; anything else as it is.

    None of these is imported for it.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    elif isinstance(value, np.matrix) or lies_on_device(value):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return value
    return in_arrows_types(value)[()] if value.ndim == 0 else in_arrows_types(value)


def lies_on_device(value: object) -> bool:
    """Whether a value is one of JAX's or TensorFlow's arrays, which say where they lie."""
    is_numpys = isinstance(value, (np.ndarray, np.generic))
    return not is_numpys and hasattr(value, "__array__") and hasattr(value, "device")


def taken_apart(value: Any) -> Any:
    """A value with nothing in it that Arrow does not take there: arrays are lists of rows."""
    if isinstance(value, Mapping):
        return {name: taken_apart(each) for name, each in value.items()}
    value = as_numpy(value)
    is_deep = isinstance(value, np.ndarray) and value.ndim > 1
    return [*map(taken_apart, value)] if is_deep or isinstance(value, (list, tuple)) else value


def nothing_as_lists(value: Any) -> Any:
    """A row's value in which arrays that hold nothing are lists, as `of_one_type` says why."""
    if isinstance(value, Mapping):
        may_hold = {name: each for name, each in value.items() if isinstance(each, MAY_HOLD)}
        changed = {name: nothing_as_lists(each) for name, each in may_hold.items()}
        return {**value, **changed} if may_hold else value
    if isinstance(value, (list, tuple)) and isinstance(next(iter(value), None), ARRAYS_WITHIN):
        return [nothing_as_lists(each) for each in value]
    is_nothing = isinstance(value, np.ndarray) and value.shape == (0,)
    return [] if is_nothing and value.dtype == np.float64 else value


def is_masked(value: object) -> bool:
    """Whether it is an array of which some values are masked."""
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def array_of_row(value: Any) -> np.ndarray | None:
    """A row's value beside arrays.

    Raises:
        TypeError: it is none.
    """
    if value is None or isinstance(value, np.ndarray):
        return value
    if isinstance(value, (list, tuple)):
        return np.asarray(value)
    raise TypeError(f"it is an array for some rows and {type(value).__name__} for others")


def of_one_type(values: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """Arrays of rows in one type, where theirs go together; those without a value take any.

    NumPy has these as fractions, as of a picture in which nothing was found, and Arrow takes no
    fractions beside words.
    """
    known = {each.dtype for each in values if each is not None}
    if len(known) < 2:
        return values
    wanted = {each.dtype for each in values if each is not None and each.size} or known
    if len({"number" if each.kind in "biuf" else each.kind for each in wanted}) > 1:
        return values
    kind = np.result_type(*wanted)
    return [None if each is None else each.astype(kind, copy=False) for each in values]


def without_values(values: np.ndarray) -> pa.Array:
    """Rows of arrays of no value, which Arrow has not in lists of one size."""
    if values.ndim > 2:
        return tensor_array([*values])
    of_no_type = values.dtype in (np.float64, object)  # as NumPy has them where nobody says which
    kind = pa.null() if of_no_type else pa.array(values.ravel()).type
    return pa.array([[]] * len(values), pa.list_(kind))


def is_of_words(value: np.ndarray) -> bool:
    """Whether an array is of texts or of Python's objects, which have no place in tensors.

    A tensor's bytes would be where such objects lie, and not what they are.
    """
    return value.dtype.kind in "OSU"


def holds_arrays(value: np.ndarray) -> bool:
    """Whether a row's values are arrays themselves."""
    if value.dtype != object:
        return False
    return isinstance(next((each for each in value if each is not None), None), np.ndarray)


def as_lists(value: Any, *, also_empty: bool = False) -> Any:
    """Arrays of arrays or of words as lists, at any depth; arrays of numbers stay.

    Args:
        value: of a row.
        also_empty: whether arrays without values are lists too, whatever type and depth they have.
    """
    value = as_numpy(value)
    if not isinstance(value, np.ndarray):
        return value
    if is_masked(value):
        return value.tolist()
    if value.ndim == 1 and value.dtype.kind in "SU":
        return value.tolist()  # whole, as in `array_from_numpy`
    if value.ndim == 1 and value.dtype != object and (value.size or not also_empty):
        return value
    return [as_lists(each, also_empty=also_empty) for each in value]


def array_of_arrays(items: list[np.ndarray | None]) -> pa.Array:
    """Arrays of arrays as a column of lists of lists."""
    try:
        return pa.array([as_lists(item) for item in items])
    except pa.ArrowException:
        return pa.array([as_lists(item, also_empty=True) for item in items])


def array_from_numpy(values: np.ndarray) -> pa.Array:
    """An array as a column: 2-D and more become lists of fixed size."""
    if values.ndim == 0:
        raise ValueError("it is a single value instead of one for each row")
    if values.ndim > 1 and (values.dtype == object or (values.ndim > 2 and is_of_words(values))):
        return pa.array(values.tolist())
    if values.dtype == object:
        items = [as_numpy(each) for each in values]
        present = [item for item in items if item is not None]
        if present and all(isinstance(item, np.ndarray) for item in present):
            items = of_one_type(items)
            flat = all(item.ndim == 1 for item in present)
            has_others = any(holds_arrays(item) or is_masked(item) for item in present)
            if has_others or any(map(is_of_words, present)):
                return array_of_arrays(items)
            if not flat:
                return tensor_array(items)
            has_any = any(item.size for item in present)
            return pa.array(items if has_any else [*map(nothing_as_lists, items)])
        if present and isinstance(present[0], (Mapping, list, tuple)):
            items = [*map(nothing_as_lists, items)]
        return pa.array(items)
    if values.ndim == 1:
        # Of NumPy's words Arrow takes what is before the first zero, as of an image's file.
        return pa.array(values.tolist() if is_of_words(values) else values)
    if not values.size and len(values):
        return without_values(values)
    inner = array_from_numpy(values.reshape(-1, *values.shape[2:]))
    return pa.FixedSizeListArray.from_arrays(inner, values.shape[1])


def in_arrows_types(values: np.ndarray) -> np.ndarray:
    """Numbers in this machine's order of bytes, and bfloat16, which NumPy has not, as float32."""
    if values.dtype.name == "bfloat16":
        return values.astype(np.float32)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
