"""Text: tokenised once on the CPU, then sorted by length so that little padding is computed."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.kinds.models.arrays import Index, column_of, slices
from tasks.kinds.models.hf import places, sentence_files, windows
from tasks.kinds.models.hf.chat import ChatTokens
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.context_length import NO_LIMIT, longest_text, refuse_no_room
from tasks.kinds.models.hf.options import (
    GENERATION,
    SEQ2SEQ,
    TOKENS_APART,
    HuggingFaceOptions,
    Task,
)
from tasks.kinds.models.hf.padding import longest_padded
from tasks.kinds.models.hf.ragged import Ragged
from tasks.kinds.models.hf.too_long import TooLong
from tasks.kinds.models.hf.vocabulary import padding_token, refuse_unknown, tokens_known
from tasks.kinds.models.input_types import refuse_other_than_text
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.onednn import keep_few_primitives
from tasks.kinds.models.torch_batches import on_device

TOKENS = "__input_ids"
TYPES = "__token_type_ids"
TOKENS_PER_BATCH_ON_CPU = 2_048
TOKENS_PER_BATCH_ON_GPU = 32_768
"""With half as many BERT-base reached 0.90 of what it does alone on an H100, with twice as many
0.98; but the more there are, the more of them are padding."""
ENOUGH_TOKENS_ON_CPU = 512
"""Of so many a CPU makes as much a second as of more: padding is all that larger batches add."""
MUCH_SHORTER = 0.97
Cut = Callable[[npt.NDArray[np.int64]], Iterator[Index]]
"""Lengths of rows to the positions of those of each batch."""


def tokens_function(
    checkpoint: Checkpoint, columns: Sequence[str], task: Task, options: HuggingFaceOptions
) -> Function:
    """Texts, or pairs of two columns, to `__input_ids`.

    What is too long comes in windows where there is a stride, else as `TooLong` has it.
    """
    tokenizer = tokenizer_for(task, checkpoint)
    if options.source_language is not None:
        tokenizer.src_lang = options.source_language
    room = longest_text(checkpoint, tokenizer, task, options)
    refuse_no_room(tokenizer, room, options, pair=len(columns) > 1)
    prefix = prefix_of(checkpoint, task, options)
    too_long = TooLong(tokenizer, room, task, options)
    # Writers read none, and of chats there are none.
    has_types = reads_types(tokenizer) and task not in GENERATION
    asked = places.ASKED if task in TOKENS_APART else {}
    cuts = windows.asked(options.stride)
    chat = ChatTokens(tokenizer, room, options)

    def encode(rows: pa.Table) -> dict[str, list[list[int]]]:
        if options.chat:
            return {"input_ids": chat.of(rows, columns[0])}
        firsts, *seconds = (texts_of(rows, each) for each in columns)
        texts = [[prefix + text for text in firsts], *seconds]
        encoded = {}
        if firsts:
            encoded = dict(tokenizer(*texts, truncation=True, max_length=room, **asked, **cuts))
        if cuts:
            return windows.side_by_side(encoded, len(firsts))
        too_long.look_at(texts, [*map(len, encoded.get("input_ids", []))])
        return encoded

    def preprocess(rows: pa.Table) -> pa.Table:
        encoded = encode(rows)
        rows = with_tokens(rows, encoded, has_types)
        rows = places.with_places(rows, encoded) if asked else rows
        return windows.with_windows(rows, encoded) if cuts else rows

    return preprocess


def with_tokens(rows: pa.Table, encoded: dict[str, list[list[int]]], has_types: bool) -> pa.Table:
    """The rows with `__input_ids`, and `__token_type_ids` where the model reads them."""
    columns = {TOKENS: "input_ids"} | ({TYPES: "token_type_ids"} if has_types else {})
    for column, name in columns.items():
        rows = rows.append_column(column, pa.array(encoded.get(name, []), pa.list_(pa.int32())))
    return rows


def reads_types(tokenizer: Any) -> bool:
    """Whether the model is told which of two texts a token is of."""
    return "token_type_ids" in tokenizer.model_input_names


def tokenizer_for(task: Task, checkpoint: Checkpoint) -> Any:
    """The checkpoint's tokenizer, which reads texts as the task wants it."""
    tokenizer = checkpoint.tokenizer()
    if task == "feature-extraction" and sentence_files.settings(checkpoint).get("do_lower_case"):
        sentence_files.lowercase(tokenizer)
    return tokenizer


def prefix_of(checkpoint: Checkpoint, task: Task, options: HuggingFaceOptions) -> str:
    """What to put before each text: what the user says, else what the model's files say."""
    if options.prefix is not None:
        return options.prefix
    if task == "feature-extraction":
        return sentence_files.default_prompt(checkpoint)
    if task not in SEQ2SEQ:
        return ""
    by_task = (checkpoint.json_file("config.json") or {}).get("task_specific_params") or {}
    return str(by_task.get(task, {}).get("prefix") or "")


def texts_of(rows: pa.Table, column: str) -> list[str]:
    """The column's texts.

    Raises:
        InvalidSpec: it holds something else.
        ValueError: a row has none.
    """
    given = column_of(rows, column)
    refuse_other_than_text(given.type, column)
    if given.null_count:
        raise ValueError(f"column {column!r} is empty in this row; it must be text")
    texts: list[str] = given.to_pylist()
    return texts


class TextInputs:
    """Padded batches of texts on the model's device, the longest first."""

    def __init__(self, tokenizer: Any, placement: Placement, types: bool = True) -> None:
        self.tokenizer, self.padding = tokenizer, padding_token(tokenizer)
        self.known: int | None = None
        """Tokens that the model knows, the first so many; None: all."""
        self.left = False
        self.types, self.masks = types, True
        self.same_lengths = False
        """Whether the model would read padding: only texts of one length share a batch then."""
        self.longest_padded = math.inf
        """Tokens of the longest texts that share a batch with those of other lengths."""
        self.width = 1
        """Tokens that each text is padded to at least."""
        self.placement, self.device = placement, placement.device
        on_cpu = placement.device == "cpu"
        if on_cpu:
            keep_few_primitives()
        self.tokens = TOKENS_PER_BATCH_ON_CPU if on_cpu else TOKENS_PER_BATCH_ON_GPU
        self.enough = ENOUGH_TOKENS_ON_CPU if on_cpu else self.tokens

    def keep_to(self, model: Any) -> None:
        """Hand a model no token that it does not know, and no row padding that would change it."""
        self.known = tokens_known(model)
        self.padding = padding_token(self.tokenizer, self.known)
        self.longest_padded = longest_padded(model.config)

    def tokens_of(self, rows: pa.Table) -> Ragged:
        """Token numbers of texts.

        Raises:
            ValueError: a row has one that the model does not know.
        """
        tokens = Ragged(rows[TOKENS])
        refuse_unknown(tokens.own_values, self.known, self.tokenizer)
        return tokens

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """Rows of like length together.

        Raises:
            ValueError: a row has nothing that the model could read (some read padding as well), or
                what it does not know.
        """
        tokens = self.tokens_of(rows)
        if len(rows) and self.width == 1 and not tokens.lengths.min():
            raise ValueError("a text is empty: the model has nothing to read")
        types = Ragged(rows[TYPES]) if self.types and TYPES in rows.column_names else None
        size = self.placement.batch_size and self.placement.rows(self.placement.batch_size)
        tokens_each = self.placement.limit.of(self.tokens)
        for index in self.together(tokens.lengths, size, tokens_each):
            arguments = self.arguments(tokens, index)
            if types:
                arguments["token_type_ids"] = on_device(
                    types.padded(index, 0, self.left, self.width), self.device
                )
            yield index, arguments

    def together(
        self, lengths: npt.NDArray[np.int64], size: int | None, tokens: int
    ) -> Iterator[Index]:
        """Positions of the rows of each batch."""
        if self.same_lengths:
            return batches_of_one_length(lengths, size, tokens)
        padded = partial(batches_by_length, size=size, tokens=tokens, enough=self.enough)
        alike = partial(batches_of_one_length, size=size, tokens=tokens)
        return parted(lengths, self.longest_padded, padded, alike)

    def arguments(self, tokens: Ragged, index: Index) -> dict[str, Any]:
        """Token numbers, and a mask that says which are real."""
        shape: dict[str, Any] = {"left": self.left, "width": self.width}
        ids = on_device(tokens.padded(index, self.padding, **shape), self.device)
        if not self.masks:
            return {"input_ids": ids}
        mask = on_device(tokens.mask(index, **shape), self.device)
        return {"input_ids": ids, "attention_mask": mask}

    def blank(self) -> dict[str, Any]:
        """One text without words; some models look for the token that each text ends with."""
        tokens = self.tokenizer("")["input_ids"]
        if not tokens or max(tokens) >= (self.known or NO_LIMIT):
            tokens = [self.padding]
        return self.arguments(Ragged(pa.chunked_array([[tokens]])), np.array([0]))


def parted(
    lengths: npt.NDArray[np.int64], longest: float, padded: Cut, alike: Cut
) -> Iterator[Index]:
    """Positions of the rows of each batch, the long ones first, apart from the others.

    Args:
        lengths: of each row.
        longest: up to which rows count as short.
        padded: cuts the short ones into batches.
        alike: cuts the long ones.
    """
    is_long = lengths > longest
    for cut, those in ((alike, is_long), (padded, ~is_long)):
        places = np.flatnonzero(those)
        yield from (places[index] for index in cut(lengths[places]))


def batches_by_length(
    lengths: npt.NDArray[np.int64], size: int | None, tokens: int = 0, enough: int = 0
) -> Iterator[Index]:
    """Positions sorted by length, longest first: what does not fit into memory shows at once.

    Args:
        lengths: of each row.
        size: rows in a batch, if the user said so.
        tokens: else, with padding, at most this many in a batch.
        enough: and none that is much shorter than the first, once there are so many.
    """
    order = np.argsort(-lengths, kind="stable")
    shortness = -lengths[order]
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        alike = int(np.searchsorted(shortness, -MUCH_SHORTER * longest, side="right")) - start
        count = size or max(1, min(tokens // longest, max(-(-enough // longest), alike)))
        yield order[start : start + count]
        start += count


def batches_of_one_length(
    lengths: npt.NDArray[np.int64], size: int | None, tokens: int = 0
) -> Iterator[Index]:
    """Positions of rows of which none needs padding, longest first.

    Args:
        lengths: of each row.
        size: rows in a batch at most, if the user said so.
        tokens: else at most this many in a batch.
    """
    for length in np.unique(lengths)[::-1]:
        same = np.flatnonzero(lengths == length)
        for part in slices(len(same), size or max(1, tokens // max(1, int(length)))):
            yield same[part]
