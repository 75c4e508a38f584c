"""Predicts with Keras on one of its backends: `python -m tests.kinds.one_backend BACKEND FOLDER`.

What the kind makes of two models in the folder, and what Keras itself does of one, go into
`found.npz` there.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from tasks.kinds.models import KerasModel
from tests.kinds.digits import predicted, rows_of, unseen, values

NUMBERS = [1, 2**40 + 1]
"""The second one is too large for 32 bits, and too long for a float of 32."""


def main(backend: str, folder: Path) -> None:
    """Predict, and write down what came of it."""

    def model(name: str, **fields: Any) -> KerasModel:
        path = str(folder / name)
        return KerasModel.model_validate({"path": path, "backend": backend, **fields})

    digits = model("digits.keras", columns=["pixels"])
    made = values(predicted(digits, rows_of(pixels=unseen()), batch_size=100))
    rows = rows_of(number=NUMBERS, half=[each / 2 for each in NUMBERS])
    wide = model("wide.keras", inputs={"number": "number", "half": "half"})
    wider = predicted(wide, rows)
    import keras  # the kind has chosen its backend

    direct = keras.saving.load_model(digits.path)(unseen(), training=False)
    np.savez(
        folder / "found.npz",
        backend=keras.config.backend(),
        predicted=made,
        direct=np.asarray(direct),
        platforms=str(sys.modules["jax"].config.jax_platforms) if backend == "jax" else "",
        double=values(wider, "double"),
        quarter=values(wider, "quarter"),
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
