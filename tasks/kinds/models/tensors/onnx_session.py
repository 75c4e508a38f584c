"""A session of onnxruntime: on its device, and what it says of its inputs."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import InvalidSpec
from tasks.kinds.models.machine_errors import is_of_the_machine
from tasks.kinds.models.model import Placement
from tasks.kinds.models.tensors.inputs import Arrays, Input
from tasks.kinds.models.tensors.outputs import named

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(string)": "object",
    **{f"tensor({name})": name for name in ("float16", "bool", *SIGNED, *UNSIGNED)},
}
CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
WEIGHTS_BESIDE = "session.model_external_initializers_file_folder_path"
ERRORS_ONLY, NEARLY_NOTHING = 3, 4


def opened(file: Path, alone: bool, placement: Placement) -> Any:
    """A session on its device.

    Args:
        file: of the model.
        alone: whether it is all there is; else its folder may hold weights in further files.
        placement: where to run.

    Raises:
        InvalidSpec: it cannot be loaded, or not there.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = placement.num_threads, 1
    options.log_severity_level = ERRORS_ONLY
    if alone:  # where weights beside it would not be found, so that all is in the fingerprint
        options.add_session_config_entry(WEIGHTS_BESIDE, str(file))
    try:
        # Of bytes onnxruntime would keep a copy for as long as it lives, beside the weights.
        session = onnxruntime.InferenceSession(str(file), options, providers(placement.device))
    except Exception as error:  # onnxruntime's are of no common class
        if is_of_the_machine(error):
            raise
        problem = f"cannot be loaded by onnxruntime {onnxruntime.__version__}: {error}"
        if "xternal" in str(error) and alone:
            problem = "has its weights in other files: give the folder that contains them all"
        raise InvalidSpec.at("model.path", str(file), problem) from error
    refuse_fallback(placement.device, session.get_providers())
    return session


def providers(device: str) -> list[str]:
    """What is to run the model; the CPU does what a GPU has no code for.

    Raises:
        InvalidSpec: the onnxruntime here has no code for the device.
    """
    import onnxruntime

    if device == "cpu":
        return [CPU]
    refuse_fallback(device, onnxruntime.get_available_providers())
    onnxruntime.preload_dlls()  # CUDA's libraries may have come with torch
    return [CUDA, CPU]


def refuse_fallback(device: str, found: Sequence[str]) -> None:
    """See that a model that was given a GPU does not run without.

    Raises:
        InvalidSpec: it would.
    """
    if device != "cpu" and CUDA not in found:
        problem = (
            f"give the model a GPU, but the onnxruntime on this node has only {', '.join(found)}: "
            "pip install onnxruntime-gpu instead, with the CUDA that it is built for, or set "
            "resources.num_gpus to 0"
        )
        raise InvalidSpec.at("resources.num_gpus", device, problem)


def inputs_of(session: Any, path: str) -> dict[str, Input]:
    """What a session says of its inputs.

    Raises:
        InvalidSpec: one is of a type that no column has, or of no size.
    """
    inputs = {}
    for each in session.get_inputs():
        if each.type not in DTYPES:
            problem = f"takes {each.type} as {each.name!r}, which no column can be converted to"
            raise InvalidSpec.at("model.path", path, problem)
        shape = tuple(size if isinstance(size, int) else None for size in each.shape)
        if 0 in shape:
            problem = f"takes {each.shape} as {each.name!r}, nothing: export it for any number of "
            raise InvalidSpec.at(
                "model.path", path, problem + "rows, for example with dynamic_axes"
            )
        # Without a known shape onnxruntime gives an empty one, as if rows were not wanted.
        inputs[each.name] = Input(np.dtype(DTYPES[each.type]), shape or None)
    return inputs


def outputs_of(session: Any, wanted: Sequence[str]) -> list[str]:
    """Names of the outputs to compute.

    Raises:
        InvalidSpec: one is not there, or no tensor.
    """
    kinds = {each.name: each.type for each in session.get_outputs()}
    for name in wanted or kinds:
        if name not in kinds:
            raise InvalidSpec.at("model.outputs", name, f"is not among {[*kinds]}")
        if not kinds[name].startswith("tensor("):
            problem = (
                f"is a {kinds[name]}, which cannot be a column: use others of {[*kinds]}, or "
                "convert the model without it (for scikit-learn's probabilities, zipmap=False)"
            )
            raise InvalidSpec.at("model.outputs", name, problem)
    return [*(wanted or kinds)]


def running(
    session: Any, outputs: Sequence[str]
) -> Callable[[Iterator[Arrays]], dict[str, np.ndarray]]:
    """What runs batches, and gives all their outputs."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.log_severity_level = NEARLY_NOTHING  # a row that fails is told by an error, once

    def run(batches: Iterator[Arrays]) -> dict[str, np.ndarray]:
        parts = []
        for batch in batches:
            rows = len(next(iter(batch.values())))
            returned = session.run([*outputs], batch, options)
            parts.append(named(dict(zip(outputs, returned, strict=True)), (), rows))
        return {name: np.concatenate([part[name] for part in parts]) for name in outputs}

    return run
