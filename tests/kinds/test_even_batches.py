"""Batches of prompts that threads write side by side: all rows, and none waits long for another."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.kinds.models.hf.generation import even_batches, in_whole_rounds

TOKENS = st.lists(st.integers(1, 500), max_size=200)


@given(TOKENS, st.integers(1, 64))
def test_each_row_is_in_one_batch_those_of_most_tokens_first(
    tokens: list[int], number: int
) -> None:
    lengths = np.array(tokens, np.int64)
    batches = even_batches(lengths, number)
    order = [int(at) for each in batches for at in each]
    assert sorted(order) == list(range(len(tokens)))
    assert lengths[order].tolist() == sorted(tokens, reverse=True)
    assert len(batches) <= number


@given(TOKENS, st.integers(1, 64))
def test_none_has_more_than_its_share_but_for_a_row_at_each_end(
    tokens: list[int], number: int
) -> None:
    lengths = np.array(tokens, np.int64)
    batches = even_batches(lengths, number)
    share = sum(tokens) / number
    assert all(lengths[each].sum() <= share + max(tokens) for each in batches)


@given(st.integers(0, 64), st.integers(1, 16))
def test_several_rounds_are_whole(batches: int, threads: int) -> None:
    found = in_whole_rounds(batches, threads)
    assert batches <= found < batches + threads
    assert found % threads == 0 or found == batches < threads
