"""What users bring: classes and functions of their own."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

Batch = dict[str, np.ndarray]


class Double:
    """Doubles x; loads or works slowly, if told so; breaks where told so.

    Given a file, it waits after two batches until that is there.
    """

    def __init__(
        self,
        seconds: float = 0.0,
        bad: float | None = None,
        dies: float | None = None,
        loading: float = 0.0,
        file: str | None = None,
    ) -> None:
        time.sleep(loading)
        self.seconds, self.bad, self.dies = seconds, bad, dies
        self.file, self.batches = file and Path(file), 0

    def __call__(self, batch: Batch) -> Batch:
        time.sleep(self.seconds)
        self.batches += 1
        while self.file and self.batches > 2 and not self.file.exists():
            time.sleep(0.05)
        if self.bad in batch["x"]:
            raise ValueError(f"cannot double {self.bad}")
        if self.dies in batch["x"]:
            raise OSError(5, "the device is gone")
        return {"doubled": batch["x"] * 2}


class Scores:
    """Makes many columns of one."""

    def __init__(self, num_scores: int) -> None:
        self.names = [f"score{at:02}" for at in range(num_scores)]

    def __call__(self, batch: Batch) -> Batch:
        return {name: batch["x"] for name in self.names}


class SlowUntil:
    """Doubles x, slowly until a file is there; loads slowly, if told so."""

    def __init__(self, seconds: float, file: str, loading: float = 0.0) -> None:
        time.sleep(loading)
        self.seconds, self.file = seconds, Path(file)

    def __call__(self, batch: Batch) -> Batch:
        time.sleep(0.0 if self.file.exists() else self.seconds)
        return {"doubled": batch["x"] * 2}


class KillsItsProcess:
    """Doubles x; rows from one on take the whole process with them, as a crash in native code does.

    The one, unless it is told that there are more.
    """

    def __init__(self, rows: int = 1) -> None:
        self.rows = rows

    def __call__(self, batch: Batch) -> Batch:
        if ((batch["x"] >= 500.0) & (batch["x"] < 500.0 + self.rows)).any():
            os._exit(1)
        return {"doubled": batch["x"] * 2}


def fail_on_500(batch: dict[str, Any]) -> dict[str, Any]:
    """A step whose environment breaks at row 500."""
    if 500 in batch["id"]:
        raise OSError(5, "the disk of the step is gone")
    return batch


def refuse_all(batch: dict[str, Any]) -> dict[str, Any]:
    """A step that no row passes."""
    raise ValueError(f"no row is good, {len(batch['id'])} are not")


class DiesOnce:
    """Doubles x; at one row the environment breaks, once, and so at each of several."""

    def __init__(self, at: float | list[float], marker: str) -> None:
        self.at, self.marker = at if isinstance(at, list) else [at], marker

    def __call__(self, batch: Batch) -> Batch:
        for at in self.at:
            marker = Path(f"{self.marker}-{at:g}")
            if at in batch["x"] and not marker.exists():
                marker.touch()
                raise OSError(5, "the device is gone for a moment")
        return {"doubled": batch["x"] * 2}


class FindsLate:
    """From some row on there is something to find: before, lists are empty and scores missing.

    Twice as far on, shares are no whole numbers any more, and what is found has one field more.
    """

    def __init__(self, first: float) -> None:
        self.first = first

    def __call__(self, batch: Batch) -> dict[str, Any]:
        found = [x if x >= self.first else None for x in batch["x"].tolist()]
        more = [{"more": x} if x >= 2 * self.first else {} for x in batch["x"].tolist()]
        return {
            "score": found,
            "share": [each["more"] / 4 if each else 0 for each in more],
            "found": [
                [] if x is None else [{"at": x} | m] for x, m in zip(found, more, strict=True)
            ],
        }


class Shapes:
    """Height and mean red of each image, decoded to (height, width, 3)."""

    def __call__(self, batch: Batch) -> dict[str, Any]:
        images = list(batch["image"])
        red = [float(image[:, :, 0].mean()) for image in images]
        return {"height": [image.shape[0] for image in images], "red": red}


def darken(batch: dict[str, Any]) -> dict[str, Any]:
    """A step that changes images."""
    return {**batch, "image": [image // 4 for image in batch["image"]]}


class Picky:
    """Doubles x; does not take some of the rows; at one the environment breaks, if told so."""

    def __init__(self, refuses: list[float], dies: float | None = None) -> None:
        self.refuses, self.dies = set(refuses), dies

    def __call__(self, batch: Batch) -> Batch:
        if self.dies in batch["x"]:
            raise OSError(5, "the device is gone")
        if bad := self.refuses & set(batch["x"].tolist()):
            raise ValueError(f"cannot double {sorted(bad)}")
        return {"doubled": batch["x"] * 2.0}


def prepared_by(batch: Batch) -> Batch:
    """Says which process did it."""
    return {**batch, "prepared_by": np.full(len(batch["id"]), os.getpid())}


class PredictedBy:
    """Says which process it is in; its first batch waits until another one is there, too.

    Leaves a file for its process, with the names of the actors that it finds.
    """

    def __init__(self, folder: str, patience: float = 60.0) -> None:
        import ray

        self.folder, self.patience = Path(folder), patience
        names = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
        Path(folder, str(os.getpid())).write_text("".join(names))

    def __call__(self, batch: Batch) -> Batch:
        until = time.monotonic() + self.patience
        while len([*self.folder.iterdir()]) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        self.patience = 0.0
        return {"predicted_by": np.full(len(batch["id"]), os.getpid())}


class SlowAndMortal:
    """Doubles x, slowly; at one row its process dies, once. Notes each row that it is given.

    What its process has done is handed on sooner than it would be, and the next process begins when
    some of it is recorded.
    """

    def __init__(self, seconds: float, dies_at: int, folder: str, emit_seconds: float) -> None:
        from tasks.ray_job import stage_adapter

        vars(stage_adapter)["EMIT_EVERY_SECONDS"] = emit_seconds
        self.seconds, self.dies_at, self.folder = seconds, dies_at, Path(folder)
        self.marker, until = self.folder / "has_died", time.monotonic() + 60.0
        while self.marker.exists() and not self.has_records() and time.monotonic() < until:
            time.sleep(0.05)

    def has_records(self) -> bool:
        return any(self.folder.glob("out.state/runs/*/records/*.json"))

    def __call__(self, batch: Batch) -> Batch:
        with (self.folder / "given").open("a") as file:
            file.writelines(f"{row}\n" for row in batch["id"])
        time.sleep(self.seconds)
        if self.dies_at in batch["id"] and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"doubled": batch["x"] * 2}


class EndsItself:
    """Ends its process, as code does that was a program of its own."""

    def __init__(self) -> None:
        raise SystemExit("no licence")

    def __call__(self, batch: Batch) -> Batch:
        return batch


class LacksItsFile:
    """Cannot be made, as a class that misses what it loads."""

    def __init__(self) -> None:
        raise ValueError("no file vocab.txt")

    def __call__(self, batch: Batch) -> Batch:
        return batch


class CannotBeCalled(SimpleNamespace):
    """Has no method for a batch, which its own source could not say."""
