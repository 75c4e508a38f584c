"""Makes a function of tensors out of a module, for arguments of one shape."""

import importlib.metadata
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tasks.kinds.models.model import Placement
from tasks.kinds.models.runtimes.runtime_used import Runtime
from tasks.kinds.models.tensors import onnx_session

Batch = Mapping[str, Any]
"""A model's arguments by name: tensors, rows first."""
Call = Callable[[Batch], Any]
Tensors = Sequence[Any]
Run = Callable[[Tensors], Tensors]
"""From a model's arguments, in order, to its outputs, in order."""


def by_openvino(module: Any, example: Tensors, num_threads: int) -> Run:
    """A module compiled by OpenVINO, with float32 also where the CPU is faster at less."""
    import torch

    # Without this module OpenVINO takes a stand-in of its own, which reports nothing to anybody.
    sys.modules.setdefault("openvino_telemetry", cast("Any", None))
    import openvino

    program = torch.export.export(module, (*example,))
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": num_threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,  # else all replicas of a node would take the same cores
    }
    made = openvino.Core().compile_model(openvino.convert_model(program), "CPU", settings)

    def run(arguments: Tensors) -> Tensors:
        returned = made([each.contiguous().numpy() for each in arguments])
        return [torch.from_numpy(returned[at].copy()) for at in range(len(made.outputs))]

    return run


def by_onnx(module: Any, example: Tensors, num_threads: int) -> Run:
    """A module translated to ONNX, for onnxruntime."""
    import torch

    program = torch.export.export(module, (*example,))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        torch.onnx.export(program, (), file, dynamo=True, verbose=False, external_data=True)
        session = onnx_session.opened(file, False, Placement(num_threads=num_threads))
    names = [each.name for each in session.get_inputs()]

    def run(arguments: Tensors) -> Tensors:
        arrays = [each.contiguous().numpy() for each in arguments]
        return [*map(torch.from_numpy, session.run(None, dict(zip(names, arrays, strict=True))))]

    return run


def by_inductor(module: Any, example: Tensors, num_threads: int) -> Run:
    """A module compiled by torch, at the first call.

    On a CPU its weights are taken for constants, and threads are torch's own, which whoever calls
    it has set. On a GPU the kernels of a call are launched together, as a CUDA graph.
    """
    import torch
    from torch._inductor import config

    on_gpu = example[0].device.type != "cpu"
    mode = "reduce-overhead" if on_gpu else None
    compiled = torch.compile(module, dynamic=False, fullgraph=True, mode=mode)

    def run(arguments: Tensors) -> Tensors:
        # Into the same tensors each time: of others it would compile anew for how these lie in
        # memory, and for whether they were made for inference.
        for kept, given in zip(example, arguments, strict=True):
            kept.copy_(given)
        # Compiling in processes of its own would leave them behind.
        with config.patch(freezing=not on_gpu, compile_threads=1):
            outputs = compiled(*example)
        # A graph writes its outputs where it wrote the last ones.
        return [each.clone() for each in outputs] if on_gpu else list(outputs)

    return run


COMPILERS: dict[Runtime, Callable[[Any, Tensors, int], Run]] = {
    "openvino": by_openvino,
    "onnx": by_onnx,
    "compile": by_inductor,
}
PACKAGE_OF: dict[Runtime, str] = {
    "openvino": "openvino",
    "onnx": "onnxruntime",
    "compile": "torch",
}


def version_of(runtime: Runtime) -> str:
    """Of the package that calculates, by whatever name it was installed (`onnxruntime-gpu`)."""
    installed = importlib.metadata.packages_distributions()[PACKAGE_OF[runtime]]
    return importlib.metadata.version(installed[0])


def compiled_run(
    runtime: Runtime, module: Any, call: Call, placement: Placement, size: int, batch: Batch
) -> Run:
    """What a compiler makes of a model that is called by name, for batches of so many rows."""
    import torch
    from torch.utils._pytree import tree_leaves

    names = [*batch]

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *arguments: Any) -> tuple[Any, ...]:
            return tuple(tree_leaves(call(dict(zip(names, arguments, strict=True)))))

    with torch.inference_mode(False), torch.no_grad():
        # No compiler takes tensors that were made for inference.
        example = [torch.zeros_like(each) for each in filled_up(batch, size)]
        # Not by eval(), which what an exported program holds refuses; it is in that mode as it is.
        positional = Positional()
        positional.training = False
        return COMPILERS[runtime](positional, example, placement.num_threads)


def num_rows(batch: Batch) -> int:
    """Rows of a batch."""
    return len(next(iter(batch.values())))


def filled_up(batch: Batch, size: int) -> list[Any]:
    """A batch's arguments with the last row repeated until there are so many."""
    import torch

    missing = size - num_rows(batch)
    if not missing:
        return [*batch.values()]
    return [
        torch.cat([each, each[-1:].expand(missing, *each.shape[1:])]) for each in batch.values()
    ]
