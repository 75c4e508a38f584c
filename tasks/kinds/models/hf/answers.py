"""Answers that stand in a text: of each token a model says how likely one begins or ends there.

Source: https://huggingface.co/docs/transformers/tasks/question_answering
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import with_columns
from tasks.kinds.models.hf import heads, places, windows
from tasks.kinds.models.hf.checkpoint import Checkpoint, quiet
from tasks.kinds.models.hf.context_length import longest_text
from tasks.kinds.models.hf.options import HuggingFaceOptions, Task
from tasks.kinds.models.hf.padding import reads_padding
from tasks.kinds.models.hf.ragged import Ragged
from tasks.kinds.models.hf.text import TOKENS, TYPES, TextInputs, reads_types, texts_of, with_tokens
from tasks.kinds.models.hf.whole_words import of_whole_words, without_blanks
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.onednn import multiply_faster
from tasks.kinds.models.torch_batches import Call, side_by_side

TASK: Task = "question-answering"
LONGEST_ANSWER = 15
STRIDE = 128
CHARACTERS_AT_ONCE = 1 << 16
"""Of texts that are read together, unless one alone has more."""
Scores = npt.NDArray[np.float32]
"""Of a window's tokens, (tokens, 2): that an answer begins there, and that it ends."""


class Answer(NamedTuple):
    """A part of a text, and the logarithm of how likely it is the answer."""

    score: float
    start: int
    end: int


def check(checkpoint: Checkpoint, options: HuggingFaceOptions) -> None:
    """See that the tokenizer knows where tokens stand, and that there is room for windows.

    Raises:
        InvalidSpec: it does not, or there is none.
    """
    places.check_tokenizer(checkpoint)
    Room(checkpoint, options)


class Room:
    """How much of a question and its text a model reads at once."""

    def __init__(self, checkpoint: Checkpoint, options: HuggingFaceOptions) -> None:
        """Ask the checkpoint.

        Args:
            checkpoint: the model's.
            options: of the task.

        Raises:
            InvalidSpec: windows would share all of their tokens.
        """
        self.tokenizer = checkpoint.tokenizer()
        self.text_first = self.tokenizer.padding_side == "left"
        """As transformers trains them: XLNet, and many that read from left to right."""
        longest = longest_text(checkpoint, self.tokenizer, TASK, options)
        # Of LED, whose decoder reads the pair again.
        decoded = getattr(checkpoint.config(), "max_decoder_position_embeddings", None)
        self.tokens = min(longest, decoded or longest)
        self.own = own = self.tokens - self.tokenizer.num_special_tokens_to_add(pair=True)
        self.stride = min(STRIDE, own // 3) if options.stride is None else options.stride
        self.for_question = own - self.stride - 1
        if self.for_question < 1:
            problem = f"leaves no room for a question among the {own} tokens that the model reads"
            raise InvalidSpec.at("model.options.stride", self.stride, f"{problem}: reduce it")

    def refuse_long(self, questions: Sequence[str], texts: Sequence[str]) -> None:
        """See that each window has more of the text than the one before.

        Raises:
            ValueError: a question takes its place, and its text does not fit beside it.
        """
        for tokens, text in zip(self.counts(questions), texts, strict=True):
            if tokens > self.for_question and tokens + self.counts([text])[0] > self.own:
                problem = f"the question has {tokens} tokens, but there is room for"
                raise ValueError(
                    f"{problem} {self.for_question}, beside its text in windows that share "
                    f"{self.stride} (model.options.stride): shorten it in a step"
                )

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        with quiet():
            return [*map(len, self.tokenizer([*texts], add_special_tokens=False)["input_ids"])]

    def windows(self, questions: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
        """Tokens of pairs, with the place of the whole word that each is of; lists a window.

        Raises:
            ValueError: a text has no tokens.
        """
        pair = ([*texts], [*questions]) if self.text_first else ([*questions], [*texts])
        text = 0 if self.text_first else 1
        found = self.tokenizer(
            *pair,
            truncation="only_first" if self.text_first else "only_second",
            max_length=self.tokens,
            return_offsets_mapping=True,
            **windows.asked(self.stride),
        )
        encoded = dict(found)
        count = range(len(encoded["input_ids"]))
        encoded["special_tokens_mask"] = [
            [each != text for each in found.sequence_ids(at)] for at in count
        ]
        if any(map(all, encoded["special_tokens_mask"])):
            raise ValueError("the text has nothing that the model can read")
        encoded["offset_mapping"] = [
            of_whole_words(
                texts[encoded[windows.OF_TEXT][at]],
                each,
                [
                    word if of == text else None
                    for word, of in zip(found.word_ids(at), found.sequence_ids(at), strict=True)
                ],
            )
            for at, each in enumerate(encoded["offset_mapping"])
        ]
        return encoded


def tokens_function(
    checkpoint: Checkpoint, columns: Sequence[str], options: HuggingFaceOptions
) -> Function:
    """Questions and texts to `__input_ids`; what is too long comes in windows."""
    room = Room(checkpoint, options)
    has_types = reads_types(room.tokenizer)

    def preprocess(rows: pa.Table) -> pa.Table:
        lengths = np.array([*map(len, texts_of(rows, columns[1]))], np.int64)
        slices = [encoded(rows[each.start : each.stop]) for each in in_slices_of(lengths)]
        return pa.concat_tables(slices) if slices else encoded(rows)

    def encoded(rows: pa.Table) -> pa.Table:
        questions, texts = (texts_of(rows, each) for each in columns)
        for column, values in zip(columns, (questions, texts), strict=True):
            if not all(map(str.strip, values)):
                raise ValueError(f"column {column!r} has no words in this row")
        read: dict[str, Any] = {}
        if questions:  # of none, tokenizers give nothing
            room.refuse_long(questions, texts)
            read = room.windows(questions, texts)
        together = windows.side_by_side(read, len(questions))
        rows = with_tokens(rows, together, has_types)
        return windows.with_windows(places.with_places(rows, together), together)

    return preprocess


def in_slices_of(lengths: npt.NDArray[np.int64]) -> Iterator[range]:
    """Which texts are read together: what tokenizers tell takes many times the memory of tokens.

    Args:
        lengths: of the texts, in characters.
    """
    ends = lengths.cumsum()
    start = before = 0
    while start < len(ends):
        fit = int(np.searchsorted(ends, before + CHARACTERS_AT_ONCE, side="right"))
        yield range(start, stop := max(start + 1, fit))
        start, before = stop, int(ends[stop - 1])


def answer_finder(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions, column: str
) -> Function:
    """A predictor that adds `answer`, `score`, `start` and `end`.

    Args:
        checkpoint: the model's.
        placement: where it runs.
        options: say what may be an answer.
        column: of the texts that have them.
    """
    model = checkpoint.model("AutoModelForQuestionAnswering", placement)
    multiply_faster(model, placement)
    tokenizer = checkpoint.tokenizer()
    inputs = TextInputs(tokenizer, placement)
    inputs.keep_to(model)
    inputs.same_lengths = reads_padding(model)
    longest = options.max_answer_length or LONGEST_ANSWER
    run = side_by_side(model, scores_by, placement)

    def predict(rows: pa.Table) -> pa.Table:
        parts, of_row = windows.apart(rows, (TOKENS, TYPES, places.PLACES))
        stand, tokens = Ragged(parts[places.PLACES]), Ragged(parts[TOKENS])
        found: list[list[Answer]] = [[] for _ in range(len(rows))]
        nothing = np.full(len(rows), np.inf)
        for index, scores in run(inputs.batches(parts)):
            for at, each in zip(index, scores, strict=True):
                no_answer = place_of_none(tokenizer, tokens.row(at))
                best, none = best_of(each, stand.row(at).reshape(-1, 2), longest, no_answer)
                found[of_row[at]].append(best)
                nothing[of_row[at]] = min(nothing[of_row[at]], none)
        best_answers = [
            max(each, key=lambda one: (one.score, -one.start)) for each in found
        ]  # a window may come before another of its text
        if options.impossible_answers:
            best_answers = [
                Answer(none, 0, 0) if none > best.score else best
                for best, none in zip(best_answers, nothing.tolist(), strict=True)
            ]
        texts = texts_of(rows, column)
        whole = [
            Answer(each.score, *without_blanks(text, each.start, each.end))
            for text, each in zip(texts, best_answers, strict=True)
        ]  # of some tokenizers a token has the blank that stands before it
        return with_columns(rows, columns_of(texts, whole))

    return predict


def scores_by(model: Any) -> Call:
    """A model as what gives the scores of each window's own tokens.

    Raises:
        ValueError: one is no number.
    """
    import torch

    def call(arguments: dict[str, Any]) -> list[Scores]:
        out = model(**arguments)
        logits = torch.stack([out.start_logits, out.end_logits], dim=-1).float()
        is_own = arguments["attention_mask"].bool()
        heads.refuse_no_numbers(logits[is_own])
        logits = logits.cpu().numpy()
        return [logits[at, :length] for at, length in enumerate(is_own.sum(-1).tolist())]

    return call


def place_of_none(tokenizer: Any, tokens: npt.NDArray[np.int32]) -> int:
    """Place of the token that stands for there being no answer, among those of a window."""
    for token in (tokenizer.cls_token_id, tokenizer.bos_token_id):
        if token is not None and (found := np.flatnonzero(tokens == token)).size:
            return int(found[0])
    return 0


def best_of(
    scores: Scores, stand: npt.NDArray[np.int32], longest: int, no_answer: int
) -> tuple[Answer, float]:
    """The likeliest answer of a window, and how likely there is none in it, as a logarithm.

    Args:
        scores: of its tokens.
        stand: where they stand in the text.
        longest: tokens of an answer.
        no_answer: place of the token that stands for there being none.
    """
    is_text = stand[:, 0] != places.NOWHERE
    counts = is_text.copy()
    counts[no_answer] = True
    # Logarithms: what is less likely than the least float would be none of the answers.
    logs = scores.astype(np.float64) - scores[counts].max(axis=0)
    logs -= np.log(np.exp(logs[counts]).sum(axis=0))
    nothing = float(logs[no_answer].sum())
    starts, ends = np.where(is_text[:, None], logs, -np.inf).T
    spans = np.full((len(scores), min(longest, len(scores))), -np.inf)
    for more in range(spans.shape[1]):
        spans[: len(scores) - more, more] = starts[: len(scores) - more] + ends[more:]
    first, more = divmod(int(spans.argmax()), spans.shape[1])
    start, end = int(stand[first, 0]), int(stand[first + more, 1])
    return Answer(float(spans[first, more]), start, end), nothing


def columns_of(texts: Sequence[str], answers: Sequence[Answer]) -> dict[str, pa.Array]:
    """Output columns of what was found in texts."""
    words = [text[each.start : each.end] for text, each in zip(texts, answers, strict=True)]
    return {
        "answer": pa.array(words, pa.string()),
        "score": pa.array([math.exp(each.score) for each in answers], pa.float32()),
        "start": pa.array([each.start for each in answers], pa.int32()),
        "end": pa.array([each.end for each in answers], pa.int32()),
    }
