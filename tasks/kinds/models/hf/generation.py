"""Text generation: what a row gets does not depend on the rows beside it."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import Index, with_columns
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.own_settings import (
    mixes_rows,
    refuse_other_ways,
    sees_padding,
    settings,
)
from tasks.kinds.models.hf.ragged import Ragged
from tasks.kinds.models.hf.sampling import draws, draws_by
from tasks.kinds.models.hf.score_check import ScoreCheck
from tasks.kinds.models.hf.text import (
    TextInputs,
    batches_by_length,
    batches_of_one_length,
    parted,
)
from tasks.kinds.models.llm.row_answers import Key
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.onednn import multiply_faster
from tasks.kinds.models.torch_batches import Batches, Call, side_by_side

PROMPTS_PER_BATCH_ON_CPU = 64
PROMPTS_PER_BATCH_ON_GPU = 512
"""A guess: of 64 an H100 wrote 6,800 tokens a second with GPT-2; more were not measured."""
TOKENS_PER_BATCH_ON_GPU = 65_536
"""Read and written, of all prompts together: their keys and values fill the memory."""
ENOUGH_PROMPTS_ON_CPU = 32
"""A core writes for half as many at two thirds of the pace: it reads all weights for each token."""


def causal_generator(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions
) -> Function:
    """A predictor that goes on from each prompt."""
    model = checkpoint.model("AutoModelForCausalLM", placement)
    return Writer(checkpoint, model, placement, options)


def seq2seq_generator(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions
) -> Function:
    """A predictor that writes a new text for each text.

    Raises:
        InvalidSpec: the model's files do not say how the decoder starts.
    """
    model = checkpoint.model("AutoModelForSeq2SeqLM", placement)
    config = model.generation_config
    if config.decoder_start_token_id is None and config.bos_token_id is None:
        problem = "has no start token for its decoder: set decoder_start_token_id in its config"
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)
    return Writer(checkpoint, model, placement, options)


class Writer:
    """Adds `generated_text`, the new text alone."""

    def __init__(
        self, checkpoint: Checkpoint, model: Any, placement: Placement, options: HuggingFaceOptions
    ) -> None:
        multiply_faster(model, placement)
        self.placement, self.options = placement, options
        self.tokenizer = checkpoint.tokenizer()
        self.inputs = TextInputs(self.tokenizer, placement)
        self.inputs.keep_to(model)
        self.encodes = bool(model.config.is_encoder_decoder)
        self.inputs.left = not self.encodes
        self.same_lengths, self.alone = sees_padding(model), mixes_rows(model)
        self.settings = settings(model, self.tokenizer, options)
        ends = model.generation_config.eos_token_id
        self.ends = ends if isinstance(ends, list) else [ends]
        refuse_other_ways(model.generation_config, self.settings["num_beams"], checkpoint.name)
        self.run = side_by_side(model, self.call_of, placement)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Rows with their texts.

        Raises:
            ValueError: a row has nothing to go on from, or what the model does not know; or the
                model has no numbers for it.
        """
        tokens = self.inputs.tokens_of(rows)
        if len(rows) and not tokens.lengths.min():
            raise ValueError("a prompt is empty: the model has nothing to continue")
        texts = np.empty(len(rows), dtype=object)
        for index, written in self.run(self.batches(tokens, draws_by(rows))):
            # Some decoders start with a token that ends texts.
            ended = [until_end(each, self.ends, int(self.encodes)) for each in written.tolist()]
            texts[index] = self.tokenizer.batch_decode(ended, skip_special_tokens=True)
        return with_columns(rows, {"generated_text": pa.array(texts.tolist(), pa.string())})

    def batches(self, tokens: Ragged, keys: Sequence[Key]) -> Batches:
        """Prompts that are gone on from together; their keys say what is drawn for them."""
        for index in self.positions(tokens.lengths):
            drawn = draws(self.options, [keys[at] for at in index], self.placement.device)
            yield index, {**self.inputs.arguments(tokens, index), "logits_processor": drawn}

    def positions(self, lengths: npt.NDArray[np.int64]) -> Iterator[Index]:
        """Prompts of like length together; of the same length, where padding would be seen."""
        beams = self.settings.get("num_beams", 1)
        size = self.placement.rows(max(1, self.prompts_per_batch(lengths) // beams))
        size = 1 if self.alone else size
        alike = partial(batches_of_one_length, size=size)
        if self.same_lengths:
            return alike(lengths)
        longest = self.inputs.longest_padded - self.settings["max_new_tokens"]
        return parted(lengths, longest, partial(self.padded, size=size), alike)

    def padded(self, lengths: npt.NDArray[np.int64], size: int) -> Iterator[Index]:
        """Positions of prompts of like length together."""
        if not self.cuts_evenly:
            return batches_by_length(lengths, size)
        number = in_whole_rounds(-(-len(lengths) // size), self.placement.num_threads)
        return iter(even_batches(lengths + self.settings["max_new_tokens"], number))

    @property
    def cuts_evenly(self) -> bool:
        """Whether threads have a batch each, of as many rows as we like: none is to wait long."""
        own = self.placement
        is_free = not (self.alone or own.batch_size or own.limit.halvings)
        return own.device == "cpu" and is_free

    def prompts_per_batch(self, lengths: npt.NDArray[np.int64]) -> int:
        """As many as a GPU has work for, and likely memory; so few that each thread gets a batch.

        The latter on a CPU, and where it leaves a thread enough to do at a time.
        """
        if self.placement.device != "cpu":
            tokens = int(lengths.max(initial=0)) + self.settings["max_new_tokens"]
            return max(1, min(PROMPTS_PER_BATCH_ON_GPU, TOKENS_PER_BATCH_ON_GPU // tokens))
        share = -(-len(lengths) // self.placement.num_threads)
        return min(PROMPTS_PER_BATCH_ON_CPU, max(share, ENOUGH_PROMPTS_ON_CPU))

    def call_of(self, model: Any) -> Call:
        """A batch's arguments to the tokens that a model writes; ValueError where it has none."""

        def write(arguments: dict[str, Any]) -> Any:
            check = ScoreCheck()
            arguments["logits_processor"] = [check, *arguments["logits_processor"]]
            found = model.generate(
                **arguments, **self.settings, do_sample=False, pad_token_id=self.inputs.padding
            )
            check.refuse_no_numbers()
            start = 0 if self.encodes else arguments["input_ids"].shape[1]
            return found[:, start:].cpu()

        return write


def until_end(tokens: list[int], ends: Sequence[int | None], start: int) -> list[int]:
    """A row's tokens without what fills it up to its neighbours' length, which may be words.

    Args:
        tokens: of the row.
        ends: those that end a text.
        start: where to begin to look for one.
    """
    found = (at for at in range(start, len(tokens)) if tokens[at] in ends)
    return tokens[: next(found, len(tokens)) + 1]


def in_whole_rounds(batches: int, threads: int) -> int:
    """So many batches, or some more, that of several rounds none leaves a thread without one."""
    return batches if batches <= threads else -(-batches // threads) * threads


def even_batches(tokens: npt.NDArray[np.int64], number: int) -> list[Index]:
    """Positions of rows, those of most tokens first, in batches of about as much to do.

    That is as many tokens as the longest row has, for each row: the others are padded. No batch has
    more than twice the rows that each would have, had all the same number.

    Args:
        tokens: of each row, read and written.
        number: batches at most; there may be none where there are no rows.
    """
    order = np.argsort(-tokens, kind="stable")
    longest_first = tokens[order]
    most_rows = 2 * -(-len(order) // max(1, number))
    most_work = range(len(order) * int(tokens.max(initial=0)) + 1)

    def is_enough(work: int) -> bool:
        return len(batch_ends(longest_first, work, most_rows)) <= number

    least = bisect_left(most_work, True, key=is_enough)
    ends = batch_ends(longest_first, least, most_rows)
    return np.split(order, ends[:-1]) if ends else []


def batch_ends(tokens: npt.NDArray[np.int64], work: int, most_rows: int) -> list[int]:
    """Where batches end of which none has more to do than this, but for a row that has alone.

    Args:
        tokens: of rows, most first.
        work: rows of a batch, times the tokens of its longest.
        most_rows: of a batch.
    """
    ends, end = list[int](), 0
    while end < len(tokens):
        fit = work // max(1, int(tokens[end]))
        end = min(len(tokens), end + max(1, min(fit, most_rows)))
        ends.append(end)
    return ends
