"""Remembers, beside the output, how large a batch a model's memory had room for."""

import hashlib
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil

from tasks.kinds.models.batch_limit import BatchLimit
from tasks.machine import GIB
from tasks.outputs import output_of
from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.layout import OutputFolder
from tasks.protocol.read_back import read_note
from tasks.protocol.storage import FsspecStorage, paths_in
from tasks.ray_job.job import Job
from tasks.spec import BatchInferenceSpec

DAY_SECONDS = 24 * 3600
DAYS_REMEMBERED = 7
"""After which a run tries whole batches again: somebody else may have had the memory."""
NOTED = {"device", "halvings", "run_id", "at"}
"""What a note says."""
OTHER_GPU = "a GPU not used by PyTorch"
"""Ray counts what a node is said to have; the model may use it by other means."""


@dataclass(kw_only=True)
class RememberedLimit(BatchLimit):
    """Tells of each halving, for this job's other replicas to come and for the next run."""

    job: Job
    device: str
    """With its memory."""
    told: set[int] = field(default_factory=set)
    """Halvings of which it was the first to tell."""

    def halve(self, tried: int) -> None:
        """Memory has run out: say so where the next replica looks."""
        super().halve(tried)
        print(f"out of memory on {self.device}: batches of 1/{1 << self.halvings} from here on")
        fingerprints = self.job.pins["fingerprints"]
        note = {
            "device": self.device,
            "halvings": self.halvings,
            "run_id": self.job.run_id,
            "at": time.time(),
        }
        with suppress(OSError):  # this replica goes on whether others learn of it or not
            if self.halvings not in known(self.job.spec, fingerprints, self.device):
                self.job.storage.write(self.file(self.halvings), json.dumps(note).encode())
                self.told.add(self.halvings)

    def take_back(self, halvings: int) -> None:
        """A row that does not fit alone says nothing of other rows, here or in the next run.

        What other replicas have found stays.
        """
        self.forget(halvings)
        super().take_back(halvings)

    def ease(self) -> None:
        """What has not failed for a while, the next run need not go below either."""
        self.forget(self.halvings)
        super().ease()
        if self.is_trial:
            print(f"batches of 1/{1 << self.halvings} are tried again on {self.device}")

    def forget(self, halvings: int) -> None:
        """No longer tell of more halvings than these, where it was the first to."""
        for each in [found for found in self.told if found > halvings]:
            with suppress(OSError):
                self.job.storage.delete(self.file(each))
            self.told.discard(each)

    def file(self, halvings: int) -> str:
        """Where so many are noted: replicas that run out together do not overwrite one another."""
        key = key_of(self.job.spec, self.job.pins["fingerprints"], self.device)
        return f"{output_of(self.job.spec)[1].batch_limits}/{key}/{halvings}.json"


def remembered_limit(job: Job, device: str) -> RememberedLimit:
    """What earlier replicas of this model found out on a device like this one.

    Where the storage does not say, this one finds out by itself.
    """
    name, halvings = name_of(device), 0
    with suppress(OSError):
        halvings = halvings_on(job.spec, job.pins["fingerprints"], name)
    return RememberedLimit(halvings=halvings, job=job, device=name)


def halvings_on(spec: BatchInferenceSpec, fingerprints: Mapping[str, str], device: str) -> int:
    """How often batches are halved on a device like this one; 0 where nobody ran out of memory."""
    return max(known(spec, fingerprints, device), default=0)


def known(spec: BatchInferenceSpec, fingerprints: Mapping[str, str], device: str) -> set[int]:
    """Halvings of which replicas on a device like this one have told of late."""
    storage, output = output_of(spec)
    since = time.time() - DAYS_REMEMBERED * DAY_SECONDS
    notes = notes_in(storage, f"{output.batch_limits}/{key_of(spec, fingerprints, device)}")
    return {note["halvings"] for note in notes if note["at"] > since}


def is_short(spec: BatchInferenceSpec, fingerprints: Mapping[str, str]) -> bool:
    """Whether memory ran out for such replicas on any device, in this run or in one before."""
    storage, output = output_of(spec)
    devices = {note["device"] for note in notes_in(storage, output.batch_limits)}
    return any(halvings_on(spec, fingerprints, device) for device in devices)


def halvings_of(storage: FsspecStorage, output: OutputFolder, run_id: str) -> list[dict[str, Any]]:
    """What a run's replicas have told, each `device`, `halvings`, `run_id` and `at` (seconds)."""
    notes = notes_in(storage, output.batch_limits)
    return sorted((n for n in notes if n["run_id"] == run_id), key=lambda note: note["at"])


def notes_in(storage: FsspecStorage, folder: str) -> list[dict[str, Any]]:
    """What replicas have told in a folder and below; damaged notes are passed over.

    Of a model that is trained anew each night there are as many as nights.
    """
    found = asked_at_once(partial(read_note, storage), paths_in(storage, folder, ".json"))
    return [note for note in found if note and note.keys() >= NOTED]


def key_of(spec: BatchInferenceSpec, fingerprints: Mapping[str, str], device: str) -> str:
    """What a batch's room follows from: model, precision, size asked, and who has a share.

    Args:
        spec: of the job.
        fingerprints: of weights and code.
        device: with its memory.
    """
    its, model = spec.resources, spec.model
    share = [its.num_gpus, its.memory_gb]
    what = [model.identity(model.not_in_identity), dict(fingerprints)]
    parts = [*what, device, its.dtype, its.batch_size, *share]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def name_of(device: str) -> str:
    """The device and its memory, as in `NVIDIA H200, 139 GiB`."""
    if device == "cpu":
        return f"CPU, {psutil.virtual_memory().total // GIB} GiB"
    import torch

    if not torch.cuda.is_available():
        return OTHER_GPU
    found = torch.cuda.get_device_properties(device)
    return f"{found.name}, {found.total_memory // GIB} GiB"
