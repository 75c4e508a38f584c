"""Calls a PyTorch model with batches of arrays."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tasks.kinds.models.model import Placement
from tasks.kinds.models.odd_numbers import too_large
from tasks.kinds.models.tensors.inputs import ALONE, Arrays
from tasks.kinds.models.tensors.outputs import named
from tasks.kinds.models.torch_batches import in_turn, on_device

Call = Callable[[Mapping[str, Any]], Any]
"""A model as a function of tensors by the names of its inputs."""
OTHER_WIDTH = re.compile(r"mat1 and mat2 shapes cannot be multiplied.*")
OF_SHAPES = re.compile("dimension|shape|size")
FOR_INDEX = re.compile(
    r".*(?:scalar types: Long|of type LongTensor|indices must be long"
    r"|xpected (?:a long tensor|dtype int\S*(?: or int64)?) for index).*"
)
"""What torch says of fractions where whole numbers are to be: by embeddings, as places, ..."""


def running(
    call: Call, placement: Placement, dtypes: Mapping[str, Any], outputs: Sequence[str]
) -> Callable[[Iterator[Arrays]], dict[str, np.ndarray]]:
    """What runs batches, and gives all their outputs.

    Args:
        call: the model.
        placement: where it is.
        dtypes: of its inputs by name.
        outputs: to keep; empty: all.
    """

    def named_call(given: dict[str, Any]) -> dict[str, Any]:
        made = named(call(given), outputs, len(next(iter(given.values()))))
        # A module that fills the same memory for each batch would give all rows the last one's.
        return {name: values.clone() for name, values in made.items()}

    def tensors(batch: Arrays) -> dict[str, Any]:
        # Bytes travel as bytes; their precision is the device's work.
        for name, values in batch.items():
            refuse_too_large(values, name, dtypes[name])
        return {
            name: on_device(values, placement.device).to(dtypes[name])
            for name, values in batch.items()
        }

    run_all = in_turn(named_call, placement)

    def run(batches: Iterator[Arrays]) -> dict[str, np.ndarray]:
        made = run_all((np.arange(0), tensors(batch)) for batch in batches)
        parts = [part for _, part in made]
        # One transfer at the end: one for each batch would make the device wait.
        return {name: as_numpy([part[name] for part in parts]) for name in parts[0]}

    return run


def refuse_too_large(values: np.ndarray, name: str, dtype: Any) -> None:
    """See that no number becomes infinite in the precision of the model.

    Args:
        values: of an input, as the column has them.
        name: of the input; empty: the only one.
        dtype: torch's, that they are cast to.

    Raises:
        ValueError: one does.
    """
    import torch

    if not dtype.is_floating_point or values.dtype.itemsize < 2 or values.dtype.kind not in "fiu":
        return
    widest = np.finfo(values.dtype).max if values.dtype.kind == "f" else np.iinfo(values.dtype).max
    largest = torch.finfo(dtype).max
    beyond = largest < widest and (values > largest) | (values < -largest)
    if (np.isfinite(values) & beyond).any():
        where = f"the model's input {name!r}" if name else "the model's input"
        raise too_large(where, dtype)


def as_numpy(parts: Sequence[Any]) -> np.ndarray:
    """An output's parts as one array; NumPy does not know all of torch's floats."""
    import torch

    whole = torch.cat([*parts])
    known = not whole.dtype.is_floating_point or whole.dtype in (torch.float64, torch.float16)
    return np.asarray((whole if known else whole.float()).cpu().numpy())


def of_another_width(error: BaseException) -> str | None:
    """What torch says of a matrix that has too many or too few columns; None of anything else."""
    found = OTHER_WIDTH.search(str(error))
    return found[0] if found else None


def wants_integers(error: BaseException) -> str | None:
    """What torch says of fractions that it was given for whole numbers; None of anything else."""
    found = FOR_INDEX.search(str(error))
    return found[0].strip() if found else None


def tell_shapes(error: BaseException, batch: Mapping[str, Any]) -> None:
    """Have an error over shapes say which ones a module was called with, but for how many rows."""
    if OF_SHAPES.search(str(error)):
        shapes = {
            name: ", ".join(["rows", *map(str, values.shape[1:])]) for name, values in batch.items()
        }
        told = ", ".join(f"{name} ({shape})".lstrip() for name, shape in shapes.items())
        told = f"{error}; it was called with {told}"
        if "rows" in shapes.values():
            told += "; a column given in a list, such as [age], has shape (rows, 1)"
        error.args = (told,)


def by_position_or_name(module: Any) -> Call:
    """A module as a function of its one input, or of several by name."""

    def call(batch: Mapping[str, Any]) -> Any:
        return module(batch[ALONE]) if ALONE in batch else module(**batch)

    return call


def precision_of(module: Any) -> Any:
    """The type of a module's weights."""
    import torch

    weights = [*module.parameters(), *module.buffers()]
    return next((each.dtype for each in weights if each.is_floating_point()), torch.float32)
