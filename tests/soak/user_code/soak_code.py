"""User code of the soak: parses rows, drops and multiplies them, predicts, raises on some."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

Batch = dict[str, Any]
Row = dict[str, Any]
PARTS = ("a", "b c", "ü=1/2")


def columns(ids: list[int], xs: list[int]) -> Batch:
    """What all parsers make of their rows."""
    return {
        "id": np.array(ids, np.int64),
        "x": np.array(xs, np.float64),
        "part": np.array([PARTS[each % len(PARTS)] for each in ids], object),
    }


def parse_lines(lines: list[str]) -> Batch:
    """Lines such as 12|34."""
    pairs = [line.split("|") for line in lines]
    return columns([int(pair[0]) for pair in pairs], [int(pair[1]) for pair in pairs])


def parse_text(batch: Batch) -> Batch:
    """Rows of the source `text`."""
    return parse_lines(list(batch["text"]))


def parse_bytes(batch: Batch) -> Batch:
    """Rows of the source `binary`."""
    return parse_lines([bytes(each).decode() for each in batch["bytes"]])


def parse_samples(batch: Batch) -> Batch:
    """Rows of the source `webdataset`."""
    found = [json.loads(each) for each in batch["json"]]
    return columns([each["id"] for each in found], [each["x"] for each in found])


def parse_images(batch: Batch) -> Batch:
    """Rows of the source `images`, or tiles of them."""
    pixels = [np.asarray(each)[0, 0].astype(int).tolist() for each in batch["image"]]
    parsed = columns([high * 256 + low for high, low, _ in pixels], [x for *_, x in pixels])
    return {**parsed, **{name: batch[name] for name in ("tile_x", "tile_y") if name in batch}}


def thin(batch: Batch) -> Batch:
    """Leaves out every row whose id is a multiple of four."""
    kept = batch["id"] % 4 != 0
    return {name: values[kept] for name, values in batch.items()}


def multiply(batch: Batch) -> Batch:
    """As many children of a row as its id modulo three."""
    counts = batch["id"] % 3
    return {
        **{name: np.repeat(values, counts) for name, values in batch.items()},
        "child": np.concatenate([np.arange(count) for count in counts]).astype(np.int64),
    }


def thin_row(row: Row) -> list[Row]:
    """What `thin` does, for one row."""
    return [row] if row["id"] % 4 else []


def multiply_row(row: Row) -> list[Row]:
    """What `multiply` does, for one row."""
    return [{**row, "child": child} for child in range(row["id"] % 3)]


def tripled(batch: Batch) -> Batch:
    """A model that is a plain function."""
    return {"y": batch["x"] * 3 + 1}


class Model:
    """Three times x, and one; notes how many rows it was handed."""

    def __init__(
        self, folder: str, seconds: float = 0.0, broken_every: int = 0, mended: str = ""
    ) -> None:
        self.folder, self.seconds = folder, seconds
        self.broken_every, self.mended = broken_every, mended

    def __call__(self, batch: Batch) -> Batch:
        self.note(len(batch["x"]))
        time.sleep(self.seconds)
        self.refuse(np.asarray(batch["id"]))
        return {"y": batch["x"] * 3 + 1}

    def note(self, rows: int) -> None:
        """In one write, so that a kill cannot tear it."""
        with (Path(self.folder) / f"{os.getpid()}.log").open("ab", buffering=0) as opened:
            opened.write(f"{rows}\n".encode())

    def refuse(self, ids: Any) -> None:
        """Raise where a row is one of those that break the model, which nobody has mended yet."""
        is_hit = self.broken_every and (ids % self.broken_every == 0).any()
        if is_hit and not os.path.exists(self.mended):
            raise ValueError(f"the model breaks on multiples of {self.broken_every}")


class Frames(Model):
    """The same over pandas frames."""

    def __call__(self, batch: Any) -> Any:
        return batch.assign(y=super().__call__(batch)["y"])


class Tables(Model):
    """The same over Arrow tables."""

    def __call__(self, batch: Any) -> Any:
        columns = {name: batch[name].to_numpy() for name in ("id", "x")}
        return batch.append_column("y", pa.array(super().__call__(columns)["y"]))


class Reordering(Model):
    """The same, last row first, with row ids."""

    def __call__(self, batch: Batch) -> Batch:
        whole = {**batch, **super().__call__(batch)}
        return {name: values[::-1] for name, values in whole.items()}
