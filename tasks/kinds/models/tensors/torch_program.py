"""Models that bring their own graph: exported programs and TorchScript."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.machine_errors import is_of_the_machine
from tasks.kinds.models.tensors.inputs import Input, RowLimits
from tasks.kinds.models.tensors.torch_running import Call
from tasks.kinds.models.tensors.training_mode import (
    calls_of_program,
    calls_of_script,
    refuse_training,
)

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def torchscript(path: Path, device: str) -> Any:
    """A TorchScript module.

    Raises:
        InvalidSpec: it cannot be loaded, or was traced in training.
    """
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the user has such a file
        try:
            module = torch.jit.load(path, map_location=device).eval()
        except RuntimeError as error:
            if is_of_the_machine(error):
                raise
            raise not_loaded(path, error) from error
    refuse_training(calls_of_script(module), path)
    return module


@dataclass(frozen=True)
class Exported:
    """An exported program, on its device."""

    module: Any
    call: Call
    """By the names of its inputs."""
    inputs: dict[str, Input]
    dtypes: dict[str, Any]
    """Of its inputs, as torch has them."""


def exported(path: Path, device: str) -> Exported:
    """An exported program.

    Raises:
        InvalidSpec: it cannot be loaded, or was exported in training.
    """
    import torch
    from torch.export.passes import move_to_device_pass

    try:
        with weights_only():
            program = torch.export.load(path)
    except Exception as error:  # of many kinds, as its reader is written in Python
        if is_of_the_machine(error):
            raise
        raise not_loaded(path, error) from error
    refuse_training(calls_of_program(program), path)
    if device != "cpu":
        program = move_to_device_pass(program, device)
    module, arguments = program.module(), arguments_of(program)

    def call(batch: Mapping[str, Any]) -> Any:
        flat = [batch.get(name, constant) for name, constant in arguments]
        args, kwargs = torch.utils._pytree.tree_unflatten(flat, program.call_spec.in_spec)
        return module(*args, **kwargs)

    examples = examples_of(program)
    ranges = program.range_constraints
    inputs = {name: input_like(each, ranges) for name, each in examples.items()}
    return Exported(module, call, inputs, {name: each.dtype for name, each in examples.items()})


@contextmanager
def weights_only() -> Iterator[None]:
    """Let torch unpickle nothing but tensors, also where its own code would ask for more."""
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = before


def arguments_of(program: Any) -> list[tuple[str, Any]]:
    """Names of a program's arguments in order, with the values of those that are constants."""
    from torch.export.graph_signature import InputKind

    specs = program.graph_signature.input_specs
    arguments = [each.arg for each in specs if each.kind == InputKind.USER_INPUT]
    return [(each.name, getattr(each, "value", None)) for each in arguments]


def examples_of(program: Any) -> dict[str, Any]:
    """Made-up tensors like those that a program takes, without data, by name."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    found = {name: values.get(name) for name, _ in arguments_of(program)}
    return {name: value for name, value in found.items() if hasattr(value, "dtype")}


def input_like(example: Any, ranges: Mapping[Any, Any]) -> Input:
    """An input of an example's type, and of its sizes where they are fixed.

    Args:
        example: without data.
        ranges: of sizes that are not fixed, by their symbols.
    """
    import torch

    dtype = example.dtype
    if dtype.is_floating_point and dtype != torch.float64:
        dtype = torch.float32  # NumPy does not know all; torch makes them of it
    shape = tuple(each if type(each) is int else None for each in example.shape)
    open_rows = shape and shape[0] is None
    rows = limits_in(ranges.get(example.shape[0].node.expr)) if open_rows else RowLimits()
    return Input(torch.empty(0, dtype=dtype).numpy().dtype, shape, rows)


def limits_in(found: Any) -> RowLimits:
    """A range of torch's as numbers of rows; None is any."""
    if found is None:
        return RowLimits()
    # Of 2 torch only reckons that there are no fewer: such programs take one row as well.
    least = int(found.lower) if found.lower > 2 else 1
    return RowLimits(least, int(found.upper) if found.upper.is_Integer else None)


def not_loaded(path: Path, error: Exception) -> InvalidSpec:
    """What to say of a file that PyTorch does not load."""
    import torch

    lines = str(error).strip().splitlines() or [type(error).__name__]
    problem = (
        f"cannot be loaded by PyTorch {torch.__version__}, check that it is complete: {lines[0]}"
    )
    return InvalidSpec.at("model.path", str(path), problem)
