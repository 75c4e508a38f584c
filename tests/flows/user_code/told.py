"""A step that goes by a file of its own, of which its spec only has the path."""

import json
from pathlib import Path
from typing import Any

Batch = dict[str, Any]


class Told:
    """Adds to x what the file says, and refuses the first ids of each hundred, as many as it says.

    It counts the rows that it was handed in a file beside.
    """

    def __init__(self, file: str) -> None:
        self.counts = Path(file).with_suffix(".counts")
        told = json.loads(Path(file).read_text())
        self.add, self.refuses = told["add"], told["refuses"]

    def __call__(self, batch: Batch) -> Batch:
        ids = batch["id"]
        if (ids % 100 < self.refuses).any():
            raise ValueError("the codec is not installed")
        with self.counts.open("a") as opened:
            opened.write(f"{len(ids)}\n")
        return {**batch, "x": batch["x"] + self.add}
