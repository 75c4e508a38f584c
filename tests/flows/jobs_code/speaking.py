"""Models that say where they run."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import voice  # type: ignore[import-not-found]


class Speaking:
    """Doubles x; says by what code and in which environment, on its output and in columns."""

    def __init__(self) -> None:
        print("the model is loaded", flush=True)
        for done in range(3):
            print(f"{done}/3 [00:01<00:08, 2.5it/s]", end="\r", file=sys.stderr, flush=True)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        """Columns besides x."""
        rows = len(batch["x"])
        said = {
            "model_file": __file__,
            "helper_file": voice.__file__,
            "tasks_file": sys.modules["tasks"].__file__,
            "greeting": os.environ.get("GREETING"),
        }
        return {"doubled": voice.double(batch["x"]), **{k: [v] * rows for k, v in said.items()}}


class Waits:
    """Doubles x, after some batches only when a file is there."""

    def __init__(self, file: str, seconds: float, batches: int = 0) -> None:
        self.file, self.seconds, self.batches = Path(file), seconds, batches

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        """One column besides x."""
        until = time.monotonic() + self.seconds
        self.batches -= 1
        while self.batches < 0 and not self.file.exists():
            if time.monotonic() > until:
                raise OSError(5, f"{self.file} has not come")
            time.sleep(0.05)
        return {"doubled": voice.double(batch["x"])}


class LoadsOnSoundNodes:
    """Doubles x, but for a node where no model can be loaded; waits until that was tried."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        if "BROKEN_NODE" in os.environ:
            (self.folder / f"tried-{os.getpid()}").touch()
            raise RuntimeError("no driver for this device")

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        """One column besides x; slowly, so that there is work for replicas that come later."""
        time.sleep(0.5)
        while not any(self.folder.glob("tried-*")):
            time.sleep(0.05)
        return {"doubled": voice.double(batch["x"])}


def slowly(batch: dict[str, np.ndarray], until: str) -> dict[str, np.ndarray]:
    """A step that takes a second for each batch, until a file is there."""
    time.sleep(0.0 if Path(until).exists() else 1.0)
    return batch
