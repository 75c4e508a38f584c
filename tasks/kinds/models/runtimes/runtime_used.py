"""What a model runs on, as its replicas tell it to whoever reports."""

from dataclasses import dataclass, field
from typing import Literal

Runtime = Literal["eager", "openvino", "onnx", "compile"]


@dataclass(frozen=True)
class RuntimeUsed:
    """What a replica calculates with, for batches of one shape."""

    asked: Runtime
    used: Runtime
    precision: str
    """As torch names it: `float32`."""
    device: str
    version: str | None = None
    """Of the runtime's package; None for eager."""
    difference: float | None = None
    """Largest difference from eager on the first batch, as a share of the output's largest
    value; None where nothing was compared."""
    tolerance: float | None = None
    """What of it is let through."""
    problem: str | None = None
    """Why the model runs in eager although another runtime was asked for."""


@dataclass
class RuntimeLog:
    """What a replica has told so far."""

    told: list[RuntimeUsed] = field(default_factory=list)
    warm_up_seconds: float = 0.0
    """Spent on compiling and on comparing: no row's time."""

    def tell(self, used: RuntimeUsed) -> None:
        """Say what is calculated with."""
        self.told.append(used)
