"""Models whose device takes no call any more; most have none, and raise what torch would."""

from typing import Any


class AcceleratorError(RuntimeError):
    """Named as torch's."""


class LosesItsDevice:
    """Doubles x; after rows from one on its process can do no call any more.

    The one, unless it is told that there are more.
    """

    def __init__(self, rows: int = 1) -> None:
        self.rows, self.is_lost = rows, False

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.is_lost |= bool(((batch["x"] >= 500.0) & (batch["x"] < 500.0 + self.rows)).any())
        if self.is_lost:
            raise AcceleratorError("CUDA error: device-side assert triggered")
        return {"doubled": batch["x"] * 2}


class AssertsOnGpu:
    """Doubles x on the GPU, where 500 is an index that is none: no kernel runs after that."""

    def __init__(self) -> None:
        import torch

        self.torch, self.ones = torch, torch.ones(500, device="cuda")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        given = self.torch.from_numpy(batch["x"].copy()).cuda()
        picked = given.long()
        picked[given > 500] = 0
        return {"doubled": (given * 2 * self.ones[picked]).cpu().numpy()}
