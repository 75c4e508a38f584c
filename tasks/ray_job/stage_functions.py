"""Builds what each stage does to a batch, from the spec."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds import column_types, user_rows
from tasks.kinds.likest import did_you_mean
from tasks.kinds.media import decode_media_columns
from tasks.kinds.models.model import Placement
from tasks.kinds.models.python import PythonModel, came_back
from tasks.kinds.user_modules import put_first
from tasks.machine import cores
from tasks.protocol.batch import PLANNED_ON, PUBLISHED_ROW, RESERVED, ROW
from tasks.protocol.ids import ROW_BITS, Ids, as_ids, row_of, shard_of
from tasks.protocol.plan_file import PUBLISHED_DAYS, PUBLISHED_SHARDS
from tasks.quick_imports import quick_imports
from tasks.ray_job.adaptive_batching import Pace
from tasks.ray_job.as_planned import refuse_changed_code, with_those_weights
from tasks.ray_job.batch_limits import remembered_limit
from tasks.ray_job.blame import Function
from tasks.ray_job.counts import STAGES
from tasks.ray_job.job import Job
from tasks.ray_job.profiling import ROWS_BEFORE_TRACE, traced
from tasks.ray_job.runtimes import StoredRuntimes
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.spec import BatchInferenceSpec

QUICK_SECONDS = 0.05
"""Calls of the user's own class get more rows until they take about this long: of much quicker ones
most is what every call costs."""


def has_preprocessing(spec: BatchInferenceSpec, stages: tuple[str, ...] = STAGES) -> bool:
    """Whether a job with these stages has anything to do between reading and the model."""
    own = "infer" in stages and (decodes_media(spec) or spec.model.preprocesses)
    return own or ("preprocess" in stages and bool(spec.steps))


def decodes_media(spec: BatchInferenceSpec) -> bool:
    """Whether media are decoded before the model gets them."""
    return spec.source.has_media and not spec.model.takes_encoded_media


def preprocess_stage(job: Job, num_threads: int) -> StageAdapter:
    """The steps, decoding, and the model's own CPU part; where the run is cut, it is after these.

    What is kept between two jobs is any model's.

    Args:
        job: what to do.
        num_threads: that its process has for it.
    """
    spec = importable(job)
    steps = spec.steps if "preprocess" in job.stages else []
    functions = [step.build() for step in steps]
    refuse_changed_code(job)
    if "infer" not in job.stages:
        return StageAdapter("preprocess", tuple(functions))
    if decodes_media(spec):
        functions.append(decode_media_columns)
    with quick_imports():
        own = spec.model.preprocessor(num_threads)
    if own is not None:
        # Encoded media are of no more use, and the largest part of what would travel.
        functions += [told_of_runs(job, own), partial(without_media, spec)]
    return StageAdapter("preprocess", tuple(functions))


def infer_stage(job: Job, device: str, num_threads: int) -> StageAdapter:
    """The model, loaded on a device."""
    spec = importable(job)
    limit = remembered_limit(job, device)
    runtimes = StoredRuntimes(job=job)
    placement = Placement(
        device, num_threads, spec.batch_size, spec.resources.dtype, limit, runtimes
    )
    # A class of the user's may hold what it likes, and say how garbage is collected.
    is_own = isinstance(spec.model, PythonModel)
    with nullcontext() if is_own else quick_imports():
        predict = told_of_runs(job, spec.model.predictor(placement))
        predict = traced(job, joined(spec, predict))
    refuse_changed_code(job)
    predict = with_those_weights(job, predict)
    rows, least = spec.model.rows_per_call, spec.model.least_rows_per_call
    if rows is None:  # it gets many at once, to sort them by length
        pace = Pace(ROWS_BEFORE_TRACE) if job.profile else Pace()
    elif least and not spec.batch_size:
        pace = Pace(least, least=least, most=rows)
    elif spec.batch_size or limit.halvings or not spec.model.calls_may_grow:
        pace = Pace.fixed(spec.batch_size or rows)
    else:
        pace = Pace(rows, least=rows, call_seconds=QUICK_SECONDS)
    return StageAdapter("infer", (predict,), pace, rows is None, limit, runtimes)


def importable(job: Job) -> BatchInferenceSpec:
    """The job's spec, once this process can import the user's modules."""
    put_first(job.working_dir)
    return job.spec


def told_of_runs(job: Job, function: Function) -> Function:
    """The function; it gets what it cannot know of the runs that do its rows, or that did them.

    Rows that are only compared have come to be by other ids than they have here, and on other days.
    That is told beside the rows, not in place of their ids: rows of several runs may share one.
    """
    published = as_ids(job.pins.get(PUBLISHED_SHARDS, ()))
    days: list[str] = []
    if job.spec.model.writes_dates:
        days = list(filter(None, job.pins.get(PUBLISHED_DAYS, [job.planned_on])))
    if not (len(published) or days):
        return function

    def beside(ids: Ids) -> dict[str, pa.Array]:
        told, shards = {}, shard_of(ids)
        if len(published):
            told[PUBLISHED_ROW] = pa.array(published[shards] << ROW_BITS | row_of(ids))
        if days:
            own = shards if len(published) else np.zeros_like(shards)
            told[PLANNED_ON] = pa.array(days).take(pa.array(own))
        return told

    def tell(rows: pa.Table) -> pa.Table:
        for name, values in beside(rows[ROW].to_numpy()).items():
            if name not in rows.column_names:  # else the function before this one was told
                rows = rows.append_column(name, values)
        return function(rows)

    return tell


def joined(spec: BatchInferenceSpec, predict: Function) -> Function:
    """Predictions beside the input columns that are kept."""

    def predict_and_join(rows: pa.Table) -> pa.Table:
        returned = predict(rows)
        refuse_unknown(spec, {*rows.column_names, *returned.column_names})
        kept = rows.select([each.name for each in rows.schema if is_kept(spec, each)])
        dropped = {each.name for each in rows.schema if is_dropped(spec, each)}
        if ROW in returned.column_names:
            not_kept = {*rows.column_names} - {*kept.column_names} - dropped
            left_out = [name for name in returned.column_names if name in not_kept]
            refuse_changed(spec, rows, returned, left_out)
            kept = in_returned_order(kept, returned)
        elif len(returned) != len(rows):
            return returned  # the adapter says so
        return with_predictions(kept, returned, {*rows.column_names}, dropped)

    return predict_and_join


def with_predictions(
    kept: pa.Table, returned: pa.Table, given: set[str], dropped: set[str]
) -> pa.Table:
    """Columns that are kept, as the model returned them, and those that it made.

    Made into a table once: to ask one for its names, or to add a column, takes longer the more
    columns it has.

    Args:
        kept: input columns.
        returned: what the model returned, row for row.
        given: names of all input columns.
        dropped: names of those that are not published whatever became of them.
    """
    found = {each.name: (each, kept[each.name]) for each in kept.schema}
    for each in returned.schema:
        if each.name.startswith(RESERVED) or each.name in dropped:
            continue
        if each.name in found:
            found[each.name] = (each, returned[each.name])
        elif each.name not in given:
            found[each.name] = (pa.field(each.name, each.type), returned[each.name])
    fields = pa.schema([each for each, _ in found.values()], kept.schema.metadata)
    return pa.table([values for _, values in found.values()], schema=fields)


def refuse_unknown(spec: BatchInferenceSpec, known: set[str]) -> None:
    """See that the columns to keep are there.

    Raises:
        InvalidSpec: one is not.
    """
    for name in spec.sink.keep_columns or ():
        if name not in known:
            names = sorted(each for each in known if not each.startswith(RESERVED))
            problem = f"is not among the columns {', '.join(names)}{did_you_mean(name, names)}"
            raise InvalidSpec.at("sink.keep_columns", name, problem)


def refuse_changed(
    spec: BatchInferenceSpec, rows: pa.Table, returned: pa.Table, left_out: list[str]
) -> None:
    """See that no prediction bears the name of an input column that is not kept.

    Raises:
        UserCodeBroke: one does, and would not be published.
    """
    if not left_out or not isinstance(spec.model, PythonModel):
        return
    order = user_rows.positions(rows[ROW].to_numpy(), user_rows.row_ids(returned))
    sent = rows if order is None else rows.take(pa.array(order))
    for name in left_out:
        if not came_back(sent.select([name]), returned[name], spec.model.batch_format):
            raise UserCodeBroke(
                f"the model changed the input column {name!r}, which sink.keep_columns leaves "
                "out, so it would not be published: add it there, or return it under another name"
            )


def in_returned_order(kept: pa.Table, returned: pa.Table) -> pa.Table:
    """Input columns that are kept, row for row as the model returned them.

    Raises:
        UserCodeBroke: it cannot be told which row is which.
    """
    if set(kept.column_names) <= set(returned.column_names):
        return returned.select(kept.column_names)  # nothing is to be joined
    order = user_rows.positions(kept[ROW].to_numpy(), user_rows.row_ids(returned))
    return kept if order is None else kept.take(pa.array(order))


def is_kept(spec: BatchInferenceSpec, each: pa.Field) -> bool:
    """Whether an input column is published."""
    if each.name.startswith(RESERVED):
        return each.name == ROW
    if spec.sink.keep_columns is not None:
        return each.name in spec.sink.keep_columns
    return not column_types.is_media(each)


def is_dropped(spec: BatchInferenceSpec, each: pa.Field) -> bool:
    """Whether a column holds media that nobody asked to keep."""
    return column_types.is_media(each) and each.name not in (spec.sink.keep_columns or ())


def without_media(spec: BatchInferenceSpec, rows: pa.Table) -> pa.Table:
    """Rows without media that nobody asked to keep."""
    return rows.drop_columns([each.name for each in rows.schema if is_dropped(spec, each)])


def device_of(num_gpus: float) -> str:
    """The device of a replica that holds so many GPUs."""
    return "cuda" if num_gpus > 0 else "cpu"


def threads_for(num_cpus: float) -> int:
    """Threads for a share of cores: at least one, and never more than there are cores."""
    return max(1, min(round(num_cpus), cores()))
