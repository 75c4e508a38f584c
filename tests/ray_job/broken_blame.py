"""Rules 9 and 10 of the protocol, broken on purpose: user code keeps rows, blame."""

import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import BatchInferenceError, ErrorBudgetExceeded, StageFailed, UserCodeBroke
from tasks.kinds import columns, user_batches, user_rows
from tasks.kinds.models import machine_errors
from tasks.kinds.models import python as python_model
from tasks.kinds.steps import python as python_step
from tasks.protocol.batch import RESERVED, ROW, RowBatch
from tasks.protocol.ids import IdRuns, as_ids
from tasks.ray_job import blame, parents, stage_adapter, stage_error, stage_functions
from tasks.ray_job.blame import Function, Outcome
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.spec import BatchInferenceSpec

Patch = pytest.MonkeyPatch
Change = Callable[[pa.Table, pa.Table], pa.Table]
"""Rows given and rows returned; what is taken for the latter."""


def function(patch: Patch, whole: Callable, broken: Callable) -> None:
    """Replace a function wherever it was imported."""
    for name, module in list(sys.modules.items()):
        ours = name.startswith(("tasks.", "tests.ray_job.", "tests.kinds."))
        if ours and getattr(module, whole.__name__, None) is whole:
            patch.setattr(module, whole.__name__, broken)


def ids_of(rows: pa.Table) -> list[int]:
    return rows[ROW].to_pylist()


# Rule 9: the same rows.


def before_rows_are_looked_at(patch: Patch, change: Change) -> None:
    whole = blame.keeping_rows

    def broken(code: Function, rows: pa.Table) -> pa.Table:
        return whole(lambda given: change(given, code(given)), rows)

    function(patch, whole, broken)


def fewer_rows_are_accepted(patch: Patch) -> None:
    def change(rows: pa.Table, returned: pa.Table) -> pa.Table:
        if ROW in returned.column_names or len(returned) >= len(rows):
            return returned
        return returned.append_column(ROW, rows[ROW].slice(0, len(returned)))

    before_rows_are_looked_at(patch, change)


def more_rows_are_accepted(patch: Patch) -> None:
    def change(rows: pa.Table, returned: pa.Table) -> pa.Table:
        return returned if ROW in returned.column_names else returned.slice(0, len(rows))

    before_rows_are_looked_at(patch, change)


def ids_that_came_back_are_overlooked(patch: Patch) -> None:
    def change(rows: pa.Table, returned: pa.Table) -> pa.Table:
        by_position = ROW in returned.column_names and len(returned) == len(rows)
        return returned.drop_columns([ROW]) if by_position else returned

    before_rows_are_looked_at(patch, change)


def ids_that_were_not_given_are_dropped(patch: Patch) -> None:
    def change(rows: pa.Table, returned: pa.Table) -> pa.Table:
        if ROW not in returned.column_names:
            return returned
        return returned.filter(pa.array(np.isin(ids_of(returned), ids_of(rows))))

    before_rows_are_looked_at(patch, change)


def ids_that_were_not_given_are_accepted(patch: Patch) -> None:
    whole = blame.keeping_rows

    def broken(code: Function, rows: pa.Table) -> pa.Table:
        returned = code(rows)
        if ROW in returned.column_names:
            return blame.grouped(returned)
        return whole(lambda given: returned, rows)

    function(patch, whole, broken)


def children_are_not_gathered(patch: Patch) -> None:
    function(patch, blame.grouped, lambda rows: rows)


def children_are_cut_from_each_other(patch: Patch) -> None:
    function(patch, parents.parent_starts, lambda rows: np.arange(len(rows) + 1))


# Rule 9: the same columns.


def changed_input_columns_of_a_model_are_accepted(patch: Patch) -> None:
    function(patch, python_model.as_sent, lambda rows, returned, batch_format: returned)


def input_columns_are_compared_in_any_order(patch: Patch) -> None:
    def broken(sent: pa.ChunkedArray, returned: pa.ChunkedArray) -> bool:
        return Counter(sent.to_pylist()) == Counter(returned.to_pylist())

    function(patch, columns.same_values, broken)


def reordered_columns_of_a_step_are_accepted(patch: Patch) -> None:
    function(patch, python_step.refuse_reordered, lambda rows, returned: None)


def reserved_columns_are_accepted(patch: Patch) -> None:
    function(patch, user_rows.refuse_reserved, lambda names: None)


def children_get_the_columns_of_the_last(patch: Patch) -> None:
    def broken(given: np.ndarray, returned: np.ndarray) -> np.ndarray:
        known = {row: at for at, row in enumerate(given.tolist())}
        return np.array([known[row] for row in returned.tolist()], dtype=np.int64)

    function(patch, user_rows.positions, broken)


def input_columns_are_published_as_they_came_back(patch: Patch) -> None:
    function(patch, user_batches.untouched, lambda given, texts, returned, batch_format: {})
    function(patch, python_model.as_sent, lambda rows, returned, batch_format: returned)


def predictions_are_joined_by_position(patch: Patch) -> None:
    whole = stage_functions.joined

    def broken(spec: BatchInferenceSpec, predict: Function) -> Function:
        def predict_by_position(rows: pa.Table) -> pa.Table:
            returned = predict(rows)
            if ROW not in returned.column_names or len(returned) > len(rows):
                return returned
            at = returned.column_names.index(ROW)
            return returned.set_column(at, ROW, rows[ROW].slice(0, len(returned)))

        return whole(spec, predict_by_position)

    function(patch, whole, broken)


def helper_columns_are_published(patch: Patch) -> None:
    whole = stage_functions.is_kept
    function(patch, whole, lambda spec, each: each.name.startswith(RESERVED) or whole(spec, each))


# Rule 9: every row has one outcome.


def after_each_slice(patch: Patch, change: Callable[[RowBatch], RowBatch]) -> None:
    whole = StageAdapter.run

    def broken(adapter: StageAdapter, rows: pa.Table, batch: RowBatch) -> RowBatch:
        return change(whole(adapter, rows, batch))

    patch.setattr(StageAdapter, "run", broken)


def filtered_rows_are_not_marked(patch: Patch) -> None:
    after_each_slice(patch, lambda outcome: replace(outcome, filtered=IdRuns()))


def rejected_rows_are_marked_as_filtered(patch: Patch) -> None:
    def change(outcome: RowBatch) -> RowBatch:
        rejected = as_ids(each.id for each in outcome.rejected)
        gone = np.sort(np.concatenate([outcome.filtered.ids(), rejected]))
        return replace(outcome, filtered=IdRuns.of(gone))

    after_each_slice(patch, change)


def rejected_rows_are_lost(patch: Patch) -> None:
    after_each_slice(patch, lambda outcome: replace(outcome, rejected=()))


# Rule 10: only data errors reject rows.


def every_error_is_the_datas_fault(patch: Patch) -> None:
    function(patch, blame.is_data_error, lambda error: True)


def no_error_is_the_datas_fault(patch: Patch) -> None:
    function(patch, blame.is_data_error, lambda error: False)


def data_is_blamed_for(patch: Patch, *kinds: type[Exception]) -> None:
    whole = blame.is_data_error
    function(patch, whole, lambda error: isinstance(error, kinds) or whole(error))


def data_is_blamed_for_storage(patch: Patch) -> None:
    whole = blame.is_data_error
    function(patch, whole, lambda error: type(error) is OSError or whole(error))


def data_is_blamed_for_a_lost_connection(patch: Patch) -> None:
    data_is_blamed_for(patch, ConnectionError)


def data_is_blamed_for_a_slow_network(patch: Patch) -> None:
    data_is_blamed_for(patch, TimeoutError)


def data_is_blamed_for_the_device(patch: Patch) -> None:
    patch.setattr(machine_errors, "DEVICE_ERRORS", ())


def data_is_blamed_for_the_devices_messages(patch: Patch) -> None:
    patch.setattr(machine_errors, "DEVICE_MESSAGE", re.compile("(?!)"))


def data_is_blamed_for_the_network(patch: Patch) -> None:
    patch.setattr(machine_errors, "NETWORK_ERRORS", ())


def data_is_blamed_for_what_led_to_an_error(patch: Patch) -> None:
    function(patch, machine_errors.chain, lambda error: [error])


def only_the_last_error_is_asked(patch: Patch) -> None:
    whole = machine_errors.chain
    function(patch, whole, lambda error: whole(error)[-1:])


def data_is_blamed_for_full_memory(patch: Patch) -> None:
    data_is_blamed_for(patch, MemoryError)


def data_is_blamed_for_what_libraries_say_of_memory(patch: Patch) -> None:
    patch.setattr(machine_errors, "is_out_of_memory", lambda error: isinstance(error, MemoryError))


def data_is_blamed_for_missing_modules(patch: Patch) -> None:
    data_is_blamed_for(patch, ImportError)


def data_is_blamed_for_broken_rules(patch: Patch) -> None:
    data_is_blamed_for(patch, BatchInferenceError)


def storage_is_blamed_for_broken_images(patch: Patch) -> None:
    whole = blame.is_data_error
    function(patch, whole, lambda error: not isinstance(error, OSError) and whole(error))


def a_stage_sets_rows_aside_for_any_error(patch: Patch) -> None:
    whole = StageAdapter.run

    def broken(adapter: StageAdapter, rows: pa.Table, batch: RowBatch) -> RowBatch:
        try:
            return whole(adapter, rows, batch)
        except StageFailed as error:
            rejected = [
                stage_adapter.rejection(adapter.stage, row, batch, error)
                for row in stage_adapter.firsts(rows, ids_of(rows)).values()
            ]
            return RowBatch(rows.slice(0, 0), tuple(rejected))

    patch.setattr(StageAdapter, "run", broken)


def storage_errors_are_final(patch: Patch) -> None:
    patch.setattr(stage_error, "StageFailed", UserCodeBroke)


def broken_rules_are_tried_again(patch: Patch) -> None:
    for module in (stage_adapter, stage_error):
        patch.setattr(module, "BatchInferenceError", ErrorBudgetExceeded)


# Rule 10: only guilty rows are rejected.


def where_a_batch_fails(
    patch: Patch, search: Callable[[Function, pa.Table, Exception], Outcome]
) -> None:
    def broken(code: Function, rows: pa.Table) -> Outcome:
        try:
            return Outcome(blame.keeping_rows(code, rows), {})
        except Exception as error:
            if not blame.is_data_error(error):
                raise
            return search(code, rows, error)

    function(patch, blame.call_with_blame, broken)


def both(first: Outcome, second: Outcome) -> Outcome:
    tables = [each.rows for each in (first, second) if each.rows is not None]
    rows = pa.concat_tables(tables, promote_options="permissive") if tables else None
    return Outcome(rows, first.failed | second.failed)


def a_failing_batch_is_rejected_whole(patch: Patch) -> None:
    def search(code: Function, rows: pa.Table, error: Exception) -> Outcome:
        return Outcome(None, dict.fromkeys(ids_of(rows), error))

    where_a_batch_fails(patch, search)


def the_first_row_is_blamed(patch: Patch) -> None:
    def search(code: Function, rows: pa.Table, error: Exception) -> Outcome:
        first = Outcome(None, {ids_of(rows)[0]: error})
        rest = rows.filter(pa.array(np.array(ids_of(rows)) != ids_of(rows)[0]))
        return both(first, blame.call_with_blame(code, rest)) if len(rest) else first

    where_a_batch_fails(patch, search)


def one_row_of_a_batch_is_blamed(patch: Patch) -> None:
    whole = blame.call_with_blame

    def broken(code: Function, rows: pa.Table) -> Outcome:
        outcome = whole(code, rows)
        return replace(outcome, failed=dict(list(outcome.failed.items())[:1]))

    function(patch, whole, broken)


def rows_are_tried_one_by_one(patch: Patch) -> None:
    def search(code: Function, rows: pa.Table, error: Exception) -> Outcome:
        starts = parents.parent_starts(rows).tolist()
        outcome = Outcome(None, {})
        for start, end in pairwise(starts):
            parent = rows.slice(start, end - start)
            outcome = both(outcome, blame.last_chance(code, parent, error))
        return outcome

    where_a_batch_fails(patch, search)


def children_are_blamed_one_by_one(patch: Patch) -> None:
    def search(code: Function, rows: pa.Table, error: Exception) -> Outcome:
        if len(rows) == 1:
            return blame.last_chance(code, rows, error)
        half = len(rows) // 2
        halves = (rows.slice(0, half), rows.slice(half))
        return both(*(blame.call_with_blame(code, each) for each in halves))

    where_a_batch_fails(patch, search)


def any_error_amid_the_search_is_the_datas_fault(patch: Patch) -> None:
    def search(code: Function, rows: pa.Table, error: Exception) -> Outcome:
        starts = parents.parent_starts(rows).tolist()
        if len(starts) == 2:
            return blame.last_chance(code, rows, error)
        middle = starts[len(starts) // 2]
        return both(part(code, rows.slice(0, middle)), part(code, rows.slice(middle)))

    def part(code: Function, rows: pa.Table) -> Outcome:
        try:
            return blame.call_with_blame(code, rows)
        except Exception as error:
            return Outcome(None, dict.fromkeys(ids_of(rows), error))

    where_a_batch_fails(patch, search)


def rows_lose_their_order_in_the_search(patch: Patch) -> None:
    whole = blame.call_with_blame

    def broken(code: Function, rows: pa.Table) -> Outcome:
        outcome = whole(code, rows)
        if not outcome.failed or outcome.rows is None:
            return outcome
        return replace(outcome, rows=outcome.rows.sort_by([(ROW, "descending")]))

    function(patch, whole, broken)


def a_rejection_names_the_first_row(patch: Patch) -> None:
    def broken(rows: pa.Table, wanted: dict[int, Exception]) -> dict[int, pa.Table]:
        return {row_id: rows.slice(0, 1) for row_id in wanted}

    function(patch, stage_adapter.firsts, broken)


# Rule 10: a guilty row fails twice.


def a_single_failure_is_enough(patch: Patch) -> None:
    def broken(code: Function, rows: pa.Table, first: Exception) -> Outcome:
        return Outcome(None, {ids_of(rows)[0]: first})

    function(patch, blame.last_chance, broken)


def the_last_chance_ends_with_any_error(patch: Patch) -> None:
    def broken(code: Function, rows: pa.Table, first: Exception) -> Outcome:
        try:
            return Outcome(blame.keeping_rows(code, rows), {})
        except Exception:
            return Outcome(None, {ids_of(rows)[0]: first})

    function(patch, blame.last_chance, broken)
