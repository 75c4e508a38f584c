"""The model of these outputs; each archive has it as it was then."""

import os
import signal
import time
from typing import Any

import numpy as np


class Double:
    """Twice a number. Some it does not take, and at one its process is killed."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if int(os.environ.get("KILLED_AT", "-1")) in batch["number"]:
            time.sleep(2)  # for what came before to be written
            os.kill(os.getpid(), signal.SIGKILL)
        refused = [int(each) for each in os.environ.get("REFUSED", "").split()]
        if np.isin(batch["number"], refused).any():
            raise ValueError("a number that it does not take")
        return {"doubled": 2 * batch["number"]}
