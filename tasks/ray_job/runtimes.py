"""Keeps what a model runs on in the run's folder, for the report."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from tasks.kinds.models.runtimes.runtime_used import RuntimeLog, RuntimeUsed
from tasks.protocol.layout import RunFolder
from tasks.protocol.read_back import read_note
from tasks.protocol.storage import FsspecStorage, paths_in
from tasks.ray_job.job import Job


@dataclass(kw_only=True)
class StoredRuntimes(RuntimeLog):
    """Tells it to the run's folder as well; replicas that say the same leave one file."""

    job: Job

    def tell(self, used: RuntimeUsed) -> None:
        """Say what is calculated with."""
        super().tell(used)
        if used.problem:
            print(f"model.runtime {used.asked}: {used.problem}; the model runs in eager")
        body = json.dumps(asdict(used)).encode()
        name = hashlib.sha256(body).hexdigest()[:16]
        with suppress(OSError):  # no row's time, nor its runtime, hangs on what a report says
            self.job.storage.write(f"{self.job.run.runtimes}/{name}.json", body)


def runtimes_of(storage: FsspecStorage, run: RunFolder) -> list[dict[str, Any]]:
    """What a run's replicas have told, fields as in `RuntimeUsed`; compiled ones first."""
    told = (read_note(storage, path) or {} for path in paths_in(storage, run.runtimes, ".json"))
    return sorted(
        (each for each in told if "used" in each),
        key=lambda each: (each["used"] == "eager", json.dumps(each)),
    )
