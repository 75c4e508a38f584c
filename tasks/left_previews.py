"""Jobs of previews and verifications whose process was killed: nobody goes on with them."""

from collections.abc import Iterator

from tasks.lease import is_followed
from tasks.outputs import output_of
from tasks.previewing import path_of_preview
from tasks.running_jobs import Told, tell_to_stop
from tasks.spec import BatchInferenceSpec


def stop_left_previews(spec: BatchInferenceSpec) -> Told:
    """Stop them; else each would hold its GPUs until `timeouts.orphan_seconds` are over.

    Args:
        spec: one with the output that they lie beside.
    """
    told = Told([], [], [], [])
    for each in left_previews(spec):
        found = tell_to_stop(each)
        told.stopped.extend(found.stopped)
        told.unseen.extend(found.unseen)
        told.errors.extend(found.errors)
    return told


def left_previews(spec: BatchInferenceSpec) -> Iterator[BatchInferenceSpec]:
    """Specs that lead to their outputs."""
    storage, output = output_of(spec)
    for folder in sorted(storage.folders(output.previews)):
        sink = spec.sink.as_files()
        path = path_of_preview(spec, folder.removesuffix(".state"))
        preview = spec.model_copy(update={"sink": sink.model_copy(update={"path": path})})
        _, its_output = output_of(preview)
        runs = map(its_output.run, storage.folders(its_output.runs))
        if not any(is_followed(storage, run) for run in runs):
            yield preview
