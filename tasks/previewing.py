"""A preview's own output: beside the real one, never published, gone when it has been shown."""

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.judging import staged_files
from tasks.output_rows import OutputReader
from tasks.plan import PlannedRun
from tasks.ray_job.job import output_of
from tasks.ray_job.writing import pinned
from tasks.spec import BatchInferenceSpec, ErrorBudget, ReadOptions

BATCHES = 8
"""Batches that a preview is cut into: of one alone nobody can say how much batches differ."""


def trial_of(spec: BatchInferenceSpec, rows: int, name: str) -> BatchInferenceSpec:
    """The spec as a preview runs it: the same pipeline, to an output of its own.

    Args:
        spec: what a run would do.
        rows: how many rows are shown.
        name: the preview's own; it comes again after a crash.

    Raises:
        InvalidSpec: no rows are asked for.
    """
    if rows < 1:
        raise InvalidSpec.at("rows", rows, "must be at least 1")
    read = spec.stages.read
    per_batch = min(spec.rows_per_batch, -(-rows // BATCHES))
    options = {name: getattr(read, name) for name in ReadOptions.model_fields}
    sink = {
        "path": f"{spec.sink.path}.state/previews/{name}",
        "keep_columns": None,  # inputs are to be seen beside predictions
        "rows_per_file": None,
        "mode": "append",
    }
    return spec.model_copy(
        update={
            # Its artifacts are not to stand among those of runs.
            "name": f"{spec.name}-preview",
            "sink": spec.sink.as_files().model_copy(update=sink),
            "stages": spec.stages.model_copy(
                update={"read": ReadOptions(**{**options, "rows_per_batch": per_batch})}
            ),
            # Rows that are set aside are what somebody wants to see.
            "errors": ErrorBudget(max_rejected_fraction=1),
            "gates": [],
        }
    )


def staged_rows(planned: PlannedRun) -> pa.Table | None:
    """All rows that a run has recorded, in their order; None where there are none."""
    schema = pinned(planned.storage, planned.run)
    accepted = planned.accepted()
    files = staged_files(planned, accepted)
    if schema is None or not files:
        return None
    reader = OutputReader(planned.storage, planned.spec.sink, schema, schema.names)
    ids = [file.ids.ids() for record in accepted.records for file in record.files]
    rows = pa.concat_tables(reader.stream(files)).append_column(
        "__row", pa.concat_arrays([pa.array(each, pa.int64()) for each in ids])
    )
    return rows.sort_by("__row").drop_columns("__row")


def clear_away(spec: BatchInferenceSpec) -> None:
    """Delete all that a preview has left behind."""
    storage, output = output_of(spec)
    storage.delete_folder(output.state)
