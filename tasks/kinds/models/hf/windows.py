"""A text of more tokens than a model reads at once, in windows of its tokens that overlap."""

from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import Index
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.context_length import longest_text
from tasks.kinds.models.hf.options import HuggingFaceOptions, Task
from tasks.kinds.models.hf.ragged import Ragged

WINDOWS = "__windows"
"""Tokens of each of a row's windows: its other lists are those of all its windows in a row."""
OF_TEXT = "overflow_to_sample_mapping"
"""What tokenizers call it which text a window is of."""


def check_stride(checkpoint: Checkpoint, task: Task, options: HuggingFaceOptions) -> None:
    """See that each window brings tokens that the one before has not.

    Raises:
        InvalidSpec: it would not.
    """
    if not options.stride:
        return
    tokenizer = checkpoint.tokenizer()
    room = longest_text(checkpoint, tokenizer, task, options)
    own = room - tokenizer.num_special_tokens_to_add()
    if options.stride >= own:
        problem = f"is not less than the {own} tokens of a text that the model reads at once"
        raise InvalidSpec.at("model.options.stride", options.stride, f"{problem}: reduce it")


def asked(stride: int | None) -> dict[str, Any]:
    """What a tokenizer is told, so that it gives a text's windows and not only the first.

    Args:
        stride: tokens that two windows share; None: there are to be none.
    """
    return {} if stride is None else {"return_overflowing_tokens": True, "stride": stride}


def side_by_side(encoded: dict[str, Any], texts: int) -> dict[str, list[list[Any]]]:
    """A text's windows as one list, and how long each of them is.

    Args:
        encoded: what the tokenizer gives, a list a window; of no texts nothing.
        texts: how many there are.
    """
    lengths = [[len(each)] for each in encoded.get("input_ids", [])]
    joined: dict[str, list[list[Any]]] = {}
    for name, lists in {**encoded, WINDOWS: lengths}.items():
        if name != OF_TEXT:
            joined[name] = [[] for _ in range(texts)]
            for text, values in zip(encoded.get(OF_TEXT, []), lists, strict=True):
                joined[name][text] += values
    return joined


def with_windows(rows: pa.Table, encoded: dict[str, Any]) -> pa.Table:
    """The rows with `__windows`, a list of whole numbers each."""
    return rows.append_column(WINDOWS, pa.array(encoded[WINDOWS], pa.list_(pa.int32())))


def apart(rows: pa.Table, names: tuple[str, ...]) -> tuple[pa.Table, Index]:
    """A row for each window, and which of the rows it is of; the rows themselves without windows.

    Args:
        rows: as a preprocessor has left them.
        names: columns of lists with so many numbers for each token, those that there are.
    """
    if WINDOWS not in rows.column_names:
        return rows, np.arange(len(rows))
    windows = Ragged(rows[WINDOWS])
    tokens = np.append(0, windows.own_values.cumsum())
    found = {}
    for name in {*names} & {*rows.column_names}:
        values = Ragged(rows[name]).own_values
        per_token = len(values) // max(1, tokens[-1])
        offsets = pa.array(tokens * per_token, pa.int32())
        found[name] = pa.ListArray.from_arrays(offsets, pa.array(values))
    return pa.table(found), np.repeat(np.arange(len(rows)), windows.lengths)
