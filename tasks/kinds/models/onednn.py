"""oneDNN, which torch brings along: what it keeps, and when it multiplies matrices.

torch multiplies float32 matrices with MKL, which leaves AVX-512 unused on processors that are not
Intel's: there oneDNN is 1.1 to 2.2 times as fast. It works on the weights as they are, so that
replicas go on sharing the pages of one file; what it makes differs by rounding alone, as it does
between batches of different sizes.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tasks.kinds.models.model import Placement

CPU_INFO = Path("/proc/cpuinfo")
CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
"""How many primitives oneDNN keeps, each for one shape; it looks when it first makes one."""
ENOUGH = "32"
"""More than the layers of a model differ in."""


def keep_few_primitives() -> None:
    """Have oneDNN keep fewer primitives than its 1,024, for a model whose inputs differ in shape.

    Each lies somewhere in the heap and splits it, until large tensors fit nowhere: a process that
    embedded texts held 1.1 GiB after eight batches and went on; with 32 it holds 0.7. One that
    looked for objects in photographs of all sizes held 2.0, and holds 0.9. Neither is slower for
    making one again. What the user has set stays.
    """
    os.environ.setdefault(CAPACITY, ENOUGH)


def multiply_faster(model: Any, placement: Placement) -> None:
    """Have oneDNN do a model's matrix products, where that is faster."""
    if placement.device == "cpu" and faster_here(CPU_INFO):
        for module in model.modules():
            forward = product_of(module)
            if forward is not None:
                module.forward = forward


def faster_here(cpu_info: Path) -> bool:
    """Whether this processor has AVX-512, and torch oneDNN, and MKL does not make use of both."""
    import torch

    has_both = torch.backends.mkldnn.is_available() and "AVX512" in (
        torch.backends.cpu.get_cpu_capability()
    )
    return has_both and cpu_info.exists() and "GenuineIntel" not in cpu_info.read_text()


def product_of(module: Any) -> Callable[[Any], Any] | None:
    """What a layer is to do instead; None where it multiplies no float32 matrices."""
    import torch
    from transformers.pytorch_utils import Conv1D

    if type(module) not in (torch.nn.Linear, Conv1D) or module.weight.dtype != torch.float32:
        return None
    return partial(multiply, module, turned=type(module) is Conv1D)


def multiply(module: Any, values: Any, turned: bool) -> Any:
    """Values (..., inputs) by a layer's weights, (outputs, inputs) or turned, plus its bias."""
    import torch

    weight = module.weight.t() if turned else module.weight
    return torch.ops.mkldnn._linear_pointwise(values, weight, module.bias, "none", [], "")
