"""Which runtime a spec asks for, and whether it can be had."""

import os
import shutil
from typing import Annotated, Any

from pydantic import Field

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.models.model import Placement
from tasks.kinds.models.runtimes.comparing import TOLERANCE
from tasks.kinds.models.runtimes.told import Runtime

FIELD = "model.runtime"
PACKAGES: dict[Runtime, tuple[tuple[str, str], ...]] = {
    "eager": (),
    "openvino": (("openvino", "openvino"),),
    "onnx": tuple((each, "onnx-runtime") for each in ("onnx", "onnxscript", "onnxruntime")),
    "compile": (),
}
"""Modules that a runtime needs, and the extra that brings each."""

RuntimeField = Annotated[
    Runtime,
    Field(
        description="What calculates on CPUs. eager: PyTorch as it is. The others compile the "
        "model once in each replica, for batches of one size, in float32: openvino is as a rule "
        "the fastest, and ready in seconds; onnx is onnxruntime; compile is PyTorch's Inductor, "
        "which wants a C++ compiler on every node and a minute a replica, and pays in jobs of an "
        "hour. They change numbers: by less than 1e-5 of the largest, where it was measured. The "
        "first batch is compared with eager; where they differ by more than "
        f"{TOLERANCE:g} of an output's largest value, or the model cannot be compiled, it runs in "
        "eager, and report and manifest say so."
    ),
]


def check_runtime(runtime: Runtime) -> None:
    """See that what a runtime needs is installed.

    Raises:
        InvalidSpec: says what is missing, and how to install it.
    """
    for module, extra in PACKAGES[runtime]:
        require(FIELD, runtime, module, extra)
    if runtime == "compile" and shutil.which(os.environ.get("CXX", "g++")) is None:
        problem = "needs a C++ compiler, here and on every node: apt install g++, or set CXX"
        raise InvalidSpec.at(FIELD, runtime, problem)


def refuse_runtime(runtime: Runtime, what: str) -> None:
    """Refuse to compile a model that only runs in eager.

    Raises:
        InvalidSpec: it is to be compiled.
    """
    if runtime != "eager":
        raise InvalidSpec.at(FIELD, runtime, f"{what}: leave it eager")


def check_placement(runtime: Runtime, placement: Placement) -> None:
    """See that a compiled model is to run where it can, with numbers that it has.

    Raises:
        InvalidSpec: it is not.
    """
    if runtime == "eager":
        return
    if placement.device != "cpu":
        problem = "is for CPUs: leave it eager, or set resources.num_gpus to 0"
        raise InvalidSpec.at(FIELD, runtime, problem)
    if placement.dtype not in ("auto", "float32"):
        problem = f"cannot be had with model.runtime {runtime}, which has float32 alone"
        raise InvalidSpec.at("resources.dtype", placement.dtype, problem)


def shown_precision(dtype: Any) -> str:
    """One of torch's types by its name."""
    return str(dtype).removeprefix("torch.")
