"""Where a spec's output lies, and its storage; jobs, plans and commands find it in the same way."""

import hashlib
import json
from dataclasses import replace
from functools import lru_cache

from tasks.errors import InvalidSpec
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.read_back import json_object, read_back
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.spec import BatchInferenceSpec


class AtOutput:
    """What knows by its spec where the output lies."""

    spec: BatchInferenceSpec

    @property
    def storage(self) -> FsspecStorage:
        """Storage of the output."""
        return output_of(self.spec)[0]

    @property
    def output(self) -> OutputFolder:
        """The output's folders."""
        return output_of(self.spec)[1]


def output_of(spec: BatchInferenceSpec) -> tuple[FsspecStorage, OutputFolder]:
    """The output's storage and folders.

    Raises:
        InvalidSpec: no storage is known for its path, or the package for it is missing.
    """
    try:
        storage, output = opened_as_output(spec, spec.sink.path)
    except (ValueError, ImportError) as error:
        raise InvalidSpec.at("sink.path", spec.sink.path, f"cannot be opened: {error}") from error
    return storage, replace(output, table=spec.sink.as_table())


def place_of_materialized(spec: BatchInferenceSpec) -> str:
    """Where rows are kept between the two jobs of a run that is cut, as the spec would name it."""
    return spec.stages.preprocess.path or f"{spec.sink.path}.state/prepared"


def storage_of_materialized(spec: BatchInferenceSpec) -> FsspecStorage:
    """The storage of that place."""
    return opened_as_output(spec, place_of_materialized(spec))[0]


def first_job_of(
    spec: BatchInferenceSpec, storage: FsspecStorage, pointer: str
) -> tuple[FsspecStorage, RunFolder]:
    """Where the first job's run lies, as the run that it is for says.

    Args:
        spec: of that run.
        storage: of its output.
        pointer: the file that says so.

    Raises:
        FileNotFoundError: it does not say.
        InvalidSpec: what it says is damaged.
    """

    def where(content: bytes) -> tuple[str, str]:
        found = json_object(content)
        return found["path"], found["run_id"]

    path, run_id = read_back(
        storage, pointer, where, "Delete it: a run that resumes writes it again"
    )
    elsewhere, output = opened_as_output(spec, path)
    return elsewhere, output.run(run_id)


def name_of_run(spec: BatchInferenceSpec, run_id: str) -> str:
    """A run's name on a cluster that runs of several stores share.

    A path on one of them may be an output's on another too, and its first run has the same id.
    """
    store = output_of(spec)[0].store
    return f"{run_id}-{hashlib.sha256(store.encode()).hexdigest()[:8]}" if store else run_id


def opened_as_output(spec: BatchInferenceSpec, url: str) -> tuple[FsspecStorage, OutputFolder]:
    """What lies where the output's storage options lead."""
    return opened(url, json.dumps(spec.sink.storage_options, sort_keys=True))


@lru_cache(maxsize=16)
def opened(url: str, options: str) -> tuple[FsspecStorage, OutputFolder]:
    """Open a storage once in each process."""
    storage, path = open_storage(url, json.loads(options))
    return storage, OutputFolder(path)
