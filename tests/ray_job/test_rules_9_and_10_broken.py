"""Rules 9 and 10 of the protocol, broken on purpose: the tests of user code must notice."""

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from tasks.errors import BatchInferenceError
from tests.kinds.steps import test_steps
from tests.ray_job import broken_blame, test_blame, test_stage_adapter, test_user_columns
from tests.ray_job.broken_blame import Patch

on_path = test_steps.on_path

BROKEN: dict[str, Iterable[Callable[[Patch], None]]] = {
    "9": (
        broken_blame.fewer_rows_are_accepted,
        broken_blame.more_rows_are_accepted,
        broken_blame.ids_that_came_back_are_overlooked,
        broken_blame.ids_that_were_not_given_are_dropped,
        broken_blame.ids_that_were_not_given_are_accepted,
        broken_blame.children_are_not_gathered,
        broken_blame.children_are_cut_from_each_other,
        broken_blame.changed_input_columns_of_a_model_are_accepted,
        broken_blame.input_columns_are_compared_in_any_order,
        broken_blame.reordered_columns_of_a_step_are_accepted,
        broken_blame.reserved_columns_are_accepted,
        broken_blame.predictions_are_joined_by_position,
        broken_blame.children_get_the_columns_of_the_last,
        broken_blame.input_columns_are_published_as_they_came_back,
        broken_blame.helper_columns_are_published,
        broken_blame.filtered_rows_are_not_marked,
        broken_blame.rejected_rows_are_marked_as_filtered,
        broken_blame.rejected_rows_are_lost,
    ),
    "10": (
        broken_blame.every_error_is_the_datas_fault,
        broken_blame.no_error_is_the_datas_fault,
        broken_blame.data_is_blamed_for_storage,
        broken_blame.data_is_blamed_for_a_lost_connection,
        broken_blame.data_is_blamed_for_a_slow_network,
        broken_blame.data_is_blamed_for_the_device,
        broken_blame.data_is_blamed_for_the_devices_messages,
        broken_blame.data_is_blamed_for_the_network,
        broken_blame.data_is_blamed_for_what_led_to_an_error,
        broken_blame.only_the_last_error_is_asked,
        broken_blame.data_is_blamed_for_full_memory,
        broken_blame.data_is_blamed_for_what_libraries_say_of_memory,
        broken_blame.data_is_blamed_for_missing_modules,
        broken_blame.data_is_blamed_for_broken_rules,
        broken_blame.storage_is_blamed_for_broken_images,
        broken_blame.a_stage_sets_rows_aside_for_any_error,
        broken_blame.storage_errors_are_final,
        broken_blame.broken_rules_are_tried_again,
        broken_blame.a_failing_batch_is_rejected_whole,
        broken_blame.the_first_row_is_blamed,
        broken_blame.one_row_of_a_batch_is_blamed,
        broken_blame.rows_are_tried_one_by_one,
        broken_blame.children_are_blamed_one_by_one,
        broken_blame.any_error_amid_the_search_is_the_datas_fault,
        broken_blame.rows_lose_their_order_in_the_search,
        broken_blame.a_rejection_names_the_first_row,
        broken_blame.a_single_failure_is_enough,
        broken_blame.the_last_chance_ends_with_any_error,
    ),
}
LED = test_blame.LED_TO_BY_THE_NETWORK
CASES = [
    pytest.param(how, id=f"rule {rule}: {how.__name__.replace('_', ' ')}")
    for rule, ways in BROKEN.items()
    for how in ways
]

CHECKS: tuple[Callable[[], None], ...] = (
    test_blame.test_a_guilty_row_costs_few_calls,
    test_blame.test_a_row_that_fails_alone_once_gets_another_chance,
    test_blame.test_children_share_their_parents_fate,
    *(
        partial(test_blame.test_what_is_not_the_datas_fault_is_raised, error)
        for error in test_blame.NOT_THE_DATAS_FAULT
    ),
    *(partial(test_blame.test_data_is_not_blamed_for_what_led_to_an_error, lines) for lines in LED),
    test_blame.test_a_lost_connection_amid_the_search_is_raised,
    test_blame.test_a_lost_connection_at_the_last_chance_is_raised,
    test_blame.test_a_decoders_oserror_is_the_datas_fault,
    test_blame.test_fewer_rows_without_ids_are_refused,
    test_blame.test_more_rows_without_ids_are_refused,
    test_blame.test_rows_that_come_back_with_ids_may_come_in_any_order,
    test_blame.test_ids_that_were_not_given_are_refused,
    test_blame.test_children_come_out_side_by_side,
    test_stage_adapter.test_children_of_an_earlier_stage_stay_together,
    test_stage_adapter.test_a_rejection_says_where_and_what,
    test_stage_adapter.test_a_full_disk_can_be_tried_again_and_sets_no_row_aside,
    test_stage_adapter.test_code_that_breaks_a_rule_is_not_tried_again,
    test_user_columns.test_an_input_column_that_comes_back_changed_is_refused,
    test_user_columns.test_predictions_are_joined_by_the_ids_that_come_back,
    test_user_columns.test_input_columns_that_stay_away_are_joined_by_id,
    test_user_columns.test_each_child_keeps_its_own_columns,
    partial(
        test_user_columns.test_an_input_column_is_published_as_it_was_read,
        "whole numbers and none",
        "numpy",
        "as it is",
    ),
    test_user_columns.test_reserved_columns_go_no_further_than_the_model,
    test_steps.test_python_refuses_reordered_rows,
    test_steps.test_python_refuses_reserved_names,
    test_blame.test_exactly_the_guilty_rows_are_set_aside,
    test_stage_adapter.test_every_row_has_one_outcome,
)
NOTICES = (AssertionError, pytest.fail.Exception, BatchInferenceError, test_blame.BadRow)
"""What a check fails with where a rule is broken; anything else is a mistake in here."""


def is_noticed_by(check: Callable[[], None]) -> bool:
    noticed = False
    try:
        check()
    except* NOTICES:  # Hypothesis may find several ways to fail
        noticed = True
    return noticed


@pytest.mark.parametrize("how", CASES)
def test_a_check_notices_the_broken_rule(how: Callable[[Patch], None], monkeypatch: Patch) -> None:
    how(monkeypatch)
    assert any(map(is_noticed_by, CHECKS)), "no check failed"


def test_no_check_fails_where_nothing_is_broken() -> None:
    for check in CHECKS:
        check()
