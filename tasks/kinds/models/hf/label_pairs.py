"""Texts, each in a pair with what stands for each label; all of its pairs share its tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import Index
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.context_length import longest_text
from tasks.kinds.models.hf.options import HuggingFaceOptions, Task
from tasks.kinds.models.hf.ragged import Ragged
from tasks.kinds.models.hf.text import (
    TOKENS,
    TYPES,
    TextInputs,
    reads_types,
    texts_of,
    with_tokens,
)
from tasks.kinds.models.hf.too_long import TooLong
from tasks.kinds.models.model import Function

TASK: Task = "zero-shot-classification"
SOME_TEXT, OTHER_TEXT = "Some text, to see what stands around it.", "And another one."
PAIRS_AT_A_TIME = 8_192
"""Sorted by length together: enough for little padding, and of long texts 32 MiB."""
Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Frame:
    """What a tokenizer puts around a text: what stands for a label, and tokens of its own."""

    before: Tokens
    after: Tokens
    types: Tokens
    """Of all that is before, of the text, and of all that is after."""

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    @classmethod
    def of(cls, encoded: Any) -> Self:
        """The frame of a text in an encoded pair."""
        text = [at for at, which in enumerate(encoded.sequence_ids()) if which == 0]
        begin, end = text[0], text[-1] + 1
        tokens = np.array(encoded["input_ids"], np.int32)
        types = np.array(encoded.get("token_type_ids", np.zeros_like(tokens)), np.int32)
        own = types[begin : begin + 1]
        return cls(tokens[:begin], tokens[end:], np.concatenate([types[:begin], own, types[end:]]))


class Frames:
    """Those of all labels, and how many tokens of a text fit into each."""

    def __init__(self, checkpoint: Checkpoint, options: HuggingFaceOptions) -> None:
        """Ask the tokenizer.

        Args:
            checkpoint: the model's.
            options: of the task.

        Raises:
            InvalidSpec: a label leaves no room for a text, or the tokenizer reads a text otherwise
                in a pair than alone.
        """
        self.tokenizer = checkpoint.tokenizer()
        self.room = longest_text(checkpoint, self.tokenizer, TASK, options)
        self.says = options.label_texts(TASK)
        (alone,) = self.tokens([OTHER_TEXT])
        self.frames = []
        for label, says in zip(options.candidate_labels or (), self.says, strict=True):
            frame = Frame.of(self.tokenizer(SOME_TEXT, says))
            self.frames.append(frame)
            if len(frame) >= self.room:
                problem = (
                    f"takes {len(frame)} tokens, with its template and the separators between the "
                )
                problem += f"two, but the model reads {self.room} in total: shorten it"
                raise InvalidSpec.at("model.options.candidate_labels", label, problem)
            pair = self.tokenizer(OTHER_TEXT, says)["input_ids"]
            if [*frame.before, *alone, *frame.after] != pair:
                problem = "has a tokenizer that reads a text differently in a pair than alone: use "
                problem += "another model, or call this one in your own class, with kind: python"
                raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)

    def tokens(self, texts: list[str], **asked: Any) -> list[list[int]]:
        """Those of texts alone, without any that the tokenizer adds."""
        return (
            self.tokenizer(texts, add_special_tokens=False, **asked)["input_ids"] if texts else []
        )

    def pairs(self, rows: pa.Table) -> pa.Table:
        """A row for each pair, those of a text side by side: what a model of pairs reads.

        Args:
            rows: as `tokens_function` has left them.
        """
        texts = Ragged(rows[TOKENS])
        frames = len(self.frames)
        fit = np.array([self.room - len(each) for each in self.frames])
        kept = np.minimum(texts.lengths[:, None], fit)  # (texts, labels)
        lengths = kept + self.room - fit
        offsets = np.append(0, lengths.ravel().cumsum())
        found = {TOKENS: np.zeros(offsets[-1], np.int32), TYPES: np.zeros(offsets[-1], np.int32)}
        # Of what is too long, the tokenizer says which end is cut off.
        dropped = texts.lengths[:, None] - kept if self.tokenizer.truncation_side == "left" else 0
        firsts = texts.offsets[:-1, None] + dropped + np.zeros_like(kept)
        for at, frame in enumerate(self.frames):
            begins, ends = offsets[at:-1:frames], offsets[at + 1 :: frames]
            before, after = len(frame.before), len(frame.after)
            heads = begins[:, None] + np.arange(before)
            tails = ends[:, None] + np.arange(-after, 0)
            mine = kept[:, at]
            within = np.arange(mine.sum()) - np.repeat(mine.cumsum() - mine, mine)
            bodies = np.repeat(begins + before, mine) + within
            found[TOKENS][heads], found[TOKENS][tails] = frame.before, frame.after
            found[TOKENS][bodies] = texts.values[np.repeat(firsts[:, at], mine) + within]
            found[TYPES][heads] = frame.types[:before]
            found[TYPES][bodies] = frame.types[before]
            found[TYPES][tails] = frame.types[before + 1 :]
        if not reads_types(self.tokenizer):
            del found[TYPES]
        starts = pa.array(offsets, pa.int32())
        lists = {name: pa.ListArray.from_arrays(starts, each) for name, each in found.items()}
        return pa.table(lists)


def tokens_function(checkpoint: Checkpoint, column: str, options: HuggingFaceOptions) -> Function:
    """Texts to `__input_ids`, without what stands around them in a pair.

    Of what is too long, the text is cut off.
    """
    frames = Frames(checkpoint, options)
    longest, says = max(zip(map(len, frames.frames), frames.says, strict=True))
    fit = frames.room - min(map(len, frames.frames))
    too_long = TooLong(frames.tokenizer, frames.room, TASK, options)

    def preprocess(rows: pa.Table) -> pa.Table:
        texts = texts_of(rows, column)
        tokens = frames.tokens(texts, truncation=True, max_length=fit)
        lengths = [len(each) + longest for each in tokens]
        too_long.look_at([texts, [says] * len(texts)], lengths)
        return with_tokens(rows, {"input_ids": tokens}, has_types=False)

    return preprocess


@dataclass(frozen=True)
class PairInputs:
    """Batches of pairs; in what comes out, those of a text are side by side."""

    frames: Frames
    inputs: TextInputs

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """Pairs of like length together."""
        labels = len(self.frames.frames)
        texts = max(1, PAIRS_AT_A_TIME // labels)
        for first in range(0, len(rows), texts):
            pairs = self.frames.pairs(rows.slice(first, texts))
            for index, arguments in self.inputs.batches(pairs):
                yield index + first * labels, arguments

    def blank(self) -> dict[str, Any]:
        """Arguments for one made-up pair."""
        return self.inputs.blank()
