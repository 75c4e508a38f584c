"""What whoever runs a spec should know of what is published already."""

from tasks.planning import baselines, reader_settings
from tasks.planning.call import Call
from tasks.planning.config import notes_of_redrive
from tasks.planning.output_as_found import (
    rows_of_another_name,
    rows_of_others,
    rows_taken_away,
    rows_within_others,
    state_on_another_disk,
)


def notes_of(call: Call) -> list[str]:
    """A sentence for each thing."""
    spec, seen = call.spec, call.seen
    if call.options.redrive:
        return notes_of_redrive(seen, call.equal_configs, call.differs)
    said = []
    if call.later_time:
        said.append(
            f"nothing is published: {spec.sink.path} has the rows of a later scheduled time, "
            f"{call.later_time}, and with sink.mode: replace each time replaces the one before; "
            "--replace-output publishes this one's rows anyway"
        )
    if not call.replaces:
        said += rows_of_another_name(seen, spec.name)
        said += rows_taken_away(call.storage, call.output, seen)
        said += reader_settings.notes(seen, spec.source)
    kept = spec.stages.preprocess
    if kept.path and not kept.materialize:
        said.append("stages.preprocess.path: no rows are kept there without materialize: true")
    if not seen.version:
        said += rows_of_others(call.storage, call.output, spec.sink.suffix)
        said += rows_within_others(call.storage, call.output)
        said += state_on_another_disk(call.storage, call.output)
    said += [
        f"run {run_id}, started by another spec or other code, has done no row and is given up"
        for run_id in call.without_rows
    ]
    return [*said, *baselines.notes(spec, seen)]
