"""Batches of prompts that threads write side by side: all rows, and none waits long for another."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.generation import (
    PROMPTS_PER_BATCH_ON_GPU,
    TOKENS_PER_BATCH_ON_GPU,
    Writer,
    causal_generator,
    even_batches,
    in_whole_rounds,
)
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.model import Placement
from tests.kinds.tiny_models import save_gpt2

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
def test_none_has_much_more_to_do_than_its_share(tokens: list[int], number: int) -> None:
    """Rows are padded to the longest beside them; a long one's own work nobody can share."""
    lengths = np.array(tokens, np.int64)
    batches = even_batches(lengths, number)
    work = [len(each) * lengths[each].max() for each in batches]
    plain = np.array_split(np.sort(lengths)[::-1], number)
    assert max(work, default=0) <= max(len(each) * each.max(initial=0) for each in plain)
    assert all(len(each) <= 2 * -(-len(tokens) // number) for each in batches)


def test_no_prompts_are_no_batches() -> None:
    assert even_batches(np.array([], np.int64), 0) == []


def test_one_long_prompt_makes_no_batch_of_all_others_wait() -> None:
    lengths = np.array([2_000] * 30 + [20] * 226)
    batches = even_batches(lengths, 4)
    work = [len(each) * int(lengths[each].max()) for each in batches]
    assert max(work) <= 30_000
    assert [len(each) for each in even_batches(np.array([4_000] + [20] * 39), 2)] == [1, 39]


@given(st.integers(0, 64), st.integers(1, 16))
def test_several_rounds_are_whole(batches: int, threads: int) -> None:
    found = in_whole_rounds(batches, threads)
    assert batches <= found < batches + threads
    assert found % threads == 0 or found == batches < threads


def test_each_of_two_threads_has_as_many_batches(tmp_path: Path) -> None:
    """Of 448 prompts seven would be of 64, and a thread idle while the last one is written."""
    save_gpt2(tmp_path)
    model = HuggingFaceModel(task="text-generation", name_or_path=str(tmp_path))
    placement = Placement(num_threads=2)
    writer = causal_generator(model.checkpoint, placement, HuggingFaceOptions(max_new_tokens=20))
    assert isinstance(writer, Writer)
    batches = [*writer.positions(np.full(448, 20))]
    assert [len(each) for each in batches] == [56] * 8


def test_a_gpu_gets_as_many_as_its_memory_is_likely_to_hold(tmp_path: Path) -> None:
    """Where they are written on the CPU: which rows share a batch is all that is asked for."""
    save_gpt2(tmp_path)
    model = HuggingFaceModel(task="text-generation", name_or_path=str(tmp_path))
    writer = causal_generator(model.checkpoint, Placement(), HuggingFaceOptions(max_new_tokens=24))
    assert isinstance(writer, Writer)
    writer.placement = Placement("cuda")
    short, long = ([*writer.positions(np.full(1_000, each))] for each in (40, 1_000))
    assert [len(each) for each in short] == [PROMPTS_PER_BATCH_ON_GPU, 488]
    assert {len(each) * (1_000 + 24) for each in long[:-1]} == {TOKENS_PER_BATCH_ON_GPU}
    assert [*writer.positions(np.array([], np.int64))] == []
