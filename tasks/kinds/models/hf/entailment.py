"""Texts by words: whether a text entails what stands for a label, as judged by a model of pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import Columns, Index, label_columns
from tasks.kinds.models.hf import heads, windows
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.context_length import longest_text
from tasks.kinds.models.hf.options import HuggingFaceOptions, Task
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
FOLLOWS, CONTRADICTED = "entail", "contra"
"""How the names of a model's classes begin."""
TWO = 2


def pairs_function(checkpoint: Checkpoint, column: str, options: HuggingFaceOptions) -> Function:
    """Each text with what stands for each label, to `__input_ids` side by side, and `__windows`.

    Of what is too long, the text is cut off.
    """
    tokenizer = checkpoint.tokenizer()
    room = longest_text(checkpoint, tokenizer, TASK, options)
    says = options.label_texts(TASK)
    too_long = TooLong(tokenizer, room, TASK, options)

    def preprocess(rows: pa.Table) -> pa.Table:
        texts = texts_of(rows, column)
        pairs = [[text for text in texts for _ in says], says * len(texts)]
        encoded: dict[str, Any] = {}
        if texts:
            encoded = dict(tokenizer(*pairs, truncation="only_first", max_length=room))
        too_long.look_at(pairs, encoded.get("input_ids", []))
        encoded[windows.OF_TEXT] = np.repeat(np.arange(len(texts)), len(says))
        joined = windows.side_by_side(encoded, len(texts))
        return windows.with_windows(with_tokens(rows, joined, reads_types(tokenizer)), joined)

    return preprocess


@dataclass(frozen=True)
class PairInputs:
    """Batches of pairs, a row's side by side in what comes out."""

    inputs: TextInputs

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """Pairs of like length together."""
        pairs, _ = windows.apart(rows, (TOKENS, TYPES))
        return self.inputs.batches(pairs)

    def blank(self) -> dict[str, Any]:
        """Arguments for one made-up pair."""
        return self.inputs.blank()


class Judge:
    """Makes label columns of a model's scores of pairs, as transformers' pipeline does.

    Source: https://huggingface.co/docs/transformers/main_classes/pipelines
    """

    def __init__(self, names: list[str], checkpoint: str, options: HuggingFaceOptions) -> None:
        """See that the model judges what the options ask of it.

        Args:
            names: of its classes, in the order of their scores.
            checkpoint: the model's name.
            options: of the task.

        Raises:
            InvalidSpec: no class is named entailment; or, where each label is judged by itself,
                none contradiction.
        """
        self.labels, self.top_k = options.candidate_labels or [], options.top_k or 1
        self.follows = class_named(FOLLOWS, names, checkpoint)
        self.contradicted: int | None = None
        """None: one of the labels is taken to be right."""
        if options.multi_label or len(self.labels) == 1:
            if len(names) == TWO:
                self.contradicted = 1 - self.follows
            else:
                self.contradicted = class_named(CONTRADICTED, names, checkpoint)

    def columns(self, logits: Any) -> Columns:
        """Labels and scores of rows; logits are of shape (rows * labels, classes)."""
        logits = logits.unflatten(0, (len(logits) // len(self.labels), len(self.labels)))
        if self.contradicted is None:
            scores = logits[..., self.follows].softmax(-1)
        else:
            scores = logits[..., [self.contradicted, self.follows]].softmax(-1)[..., 1]
        return label_columns(scores.cpu().numpy(), self.labels, self.top_k)


def class_named(beginning: str, names: list[str], checkpoint: str) -> int:
    """Which of a model's classes has a name that begins so, in whatever letters.

    Raises:
        InvalidSpec: none has, or several have.
    """
    found = [at for at, name in enumerate(names) if name.lower().startswith(beginning)]
    if len(found) == 1:
        return found[0]
    problem = (
        f"has the classes {', '.join(names)}, and {TASK} wants one of a name with {beginning}..., "
        "as models have that were trained to tell entailment from contradiction, such as "
        "facebook/bart-large-mnli. Where it was, write so into id2label of its config.json"
    )
    raise InvalidSpec.at("model.name_or_path", checkpoint, problem)


def check(checkpoint: Checkpoint, options: HuggingFaceOptions) -> None:
    """See that a model judges pairs, and that what stands for a label leaves room for a text.

    Raises:
        InvalidSpec: it does not.
    """
    Judge(heads.class_names(checkpoint.config(), checkpoint.name), checkpoint.name, options)
    tokenizer = checkpoint.tokenizer()
    room = longest_text(checkpoint, tokenizer, TASK, options)
    room -= tokenizer.num_special_tokens_to_add(pair=True)
    says = options.label_texts(TASK)
    lengths = [len(each) for each in tokenizer(says, add_special_tokens=False)["input_ids"]]
    longest = max(lengths)
    if longest >= room:
        label = (options.candidate_labels or [])[lengths.index(longest)]
        problem = f"is {longest} tokens with its template, of {room} that a pair has: shorten it"
        raise InvalidSpec.at("model.options.candidate_labels", label, problem)
