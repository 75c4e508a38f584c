"""Which texts share a batch: such as are of like length, so that little padding is computed."""

from functools import partial

import numpy as np

from tasks.kinds.models.hf.text import (
    ENOUGH_TOKENS_ON_CPU,
    MUCH_SHORTER,
    TOKENS_PER_BATCH_ON_CPU,
    TOKENS_PER_BATCH_ON_GPU,
    TextInputs,
    batches_by_length,
    batches_of_one_length,
    parted,
)
from tasks.kinds.models.model import Placement


class Tokenizer:
    pad_token_id, eos_token_id, padding_side = 0, 0, "right"


def lengths_of_texts(rows: int) -> np.ndarray:
    """Most are short, some are long, some have no token at all."""
    random = np.random.default_rng(0)
    return np.clip(random.lognormal(3.0, 1.0, rows), 0, 250).astype(np.int64)


def test_a_batch_ends_where_texts_get_shorter_and_it_has_enough() -> None:
    lengths = lengths_of_texts(2_048)
    enough, most = ENOUGH_TOKENS_ON_CPU, TOKENS_PER_BATCH_ON_CPU
    batches = [*batches_by_length(lengths, None, most, enough)]
    assert sorted(np.concatenate(batches).tolist()) == [*range(2_048)]
    for index in batches:
        longest, shortest = lengths[index[0]], lengths[index[-1]]
        assert longest == lengths[index].max()
        assert len(index) * longest <= most
        is_alike = shortest >= MUCH_SHORTER * longest
        assert is_alike or (len(index) - 1) * longest < enough
    padded = sum(len(index) * lengths[index[0]] for index in batches)
    assert padded < 1.02 * lengths.sum()
    without = [*batches_by_length(lengths, None, most, most)]
    assert sum(len(index) * lengths[index[0]] for index in without) > 1.04 * lengths.sum()


def test_a_batch_of_a_given_size_is_of_that_size() -> None:
    sizes = [len(index) for index in batches_by_length(lengths_of_texts(100), 30)]
    assert sizes == [30, 30, 30, 10]


def test_a_text_that_is_too_long_for_a_batch_has_one_of_its_own() -> None:
    found = [index.tolist() for index in batches_by_length(np.array([1, 900, 0]), None, 512, 128)]
    assert found == [[1], [0, 2]]


def test_only_long_texts_share_no_batch_with_those_of_other_lengths() -> None:
    cuts = (batches_by_length, batches_of_one_length)
    by_length, alike = (partial(each, size=9) for each in cuts)
    found = parted(np.array([3, 25, 24, 30, 25, 1]), 24, by_length, alike)
    assert [index.tolist() for index in found] == [[3], [1, 4], [2, 0, 5]]


def test_batches_are_large_on_gpus() -> None:
    """Which have too little to do with so few tokens; nobody has measured less padding there."""
    inputs = TextInputs(Tokenizer(), Placement("cuda"))
    assert inputs.tokens == inputs.enough == TOKENS_PER_BATCH_ON_GPU
    assert TextInputs(Tokenizer(), Placement("cpu")).enough == ENOUGH_TOKENS_ON_CPU
