"""Which runtime a spec asks for, and whether it can be had."""

import os
import shutil
from typing import Annotated, Any

from pydantic import Field

from tasks.errors import InvalidSpec
from tasks.kinds.extras import require
from tasks.kinds.models.model import Placement
from tasks.kinds.models.runtimes.comparing import TOLERANCE, TOLERANCES
from tasks.kinds.models.runtimes.runtime_used import Runtime

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
        description="What computes. eager: PyTorch as it is. The others compile the model once per "
        "replica, for batches of one size. openvino is for CPUs, usually the fastest there, and "
        "ready in seconds; onnx is onnxruntime, also for CPUs; compile is PyTorch's Inductor, on "
        "GPUs with CUDA graphs; it needs a C++ compiler on every node and a minute a replica, and "
        "pays off in jobs of an hour. On CPUs they compute in float32 and change numbers by less "
        "than 1e-5 of the largest, where it was measured; on GPUs compile keeps resources.dtype. "
        "The first batch is compared with eager: if they differ by more than "
        f"{TOLERANCE:g} of an output's largest value (in bfloat16 {TOLERANCES['bfloat16']:g}, in "
        f"float16 {TOLERANCES['float16']:g}), the model cannot be compiled, or the compiled one "
        "takes half as long again, eager is used, and report and manifest say so.",
    ),
]


def can_use_gpu(runtime: Runtime) -> bool:
    """Whether a runtime is for GPUs too."""
    return runtime in ("eager", "compile")


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
    """See that a compiled model is to run where it can, with numbers that it has there.

    Raises:
        InvalidSpec: it is not.
    """
    if runtime == "eager":
        return
    if placement.device != "cpu":
        if not can_use_gpu(runtime):
            problem = "is for CPUs: use compile or eager, or set resources.num_gpus to 0"
            raise InvalidSpec.at(FIELD, runtime, problem)
        return
    if placement.dtype not in ("auto", "float32"):
        problem = f"is not possible with model.runtime {runtime}, which has only float32 on CPUs"
        raise InvalidSpec.at("resources.dtype", placement.dtype, problem)


def shown_precision(dtype: Any) -> str:
    """One of torch's types by its name."""
    return str(dtype).removeprefix("torch.")
