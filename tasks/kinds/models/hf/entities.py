"""Entities in texts: a label for each token, put together as transformers' pipelines do it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.kinds.models.arrays import Index, with_columns
from tasks.kinds.models.hf import heads
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.padding import reads_padding
from tasks.kinds.models.hf.places import NOWHERE, PLACES
from tasks.kinds.models.hf.ragged import Ragged
from tasks.kinds.models.hf.text import TOKENS, TYPES, TextInputs, texts_of
from tasks.kinds.models.hf.windows import apart
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.onednn import multiply_faster
from tasks.kinds.models.torch_batches import Call, side_by_side

NO_ENTITY = "O"
"""What models call a token that belongs to none."""
SPACE = ord(" ")
Scores = npt.NDArray[np.float32]
"""Of a text's tokens, (tokens, labels)."""
Places = npt.NDArray[np.int32]
"""Of a text's tokens, (tokens, 2): see `places`."""
Entities = list[dict[str, Any]]
"""Of a text: those of the type below."""
ENTITIES = pa.list_(
    pa.struct(
        {
            "entity_group": pa.string(),
            "score": pa.float32(),
            "word": pa.string(),
            "start": pa.int32(),
            "end": pa.int32(),
        }
    )
)


def entity_finder(
    checkpoint: Checkpoint, placement: Placement, options: HuggingFaceOptions, column: str
) -> Function:
    """A predictor that adds `entities`, in the order of the text.

    Args:
        checkpoint: the model's.
        placement: where it runs.
        options: say how labels of tokens are put together.
        column: of the texts.
    """
    model = checkpoint.model("AutoModelForTokenClassification", placement)
    multiply_faster(model, placement)
    tokenizer = checkpoint.tokenizer()
    inputs = TextInputs(tokenizer, placement)
    inputs.keep_to(model)
    inputs.same_lengths = reads_padding(model)
    names = heads.class_names(model.config, checkpoint.name)
    join = Joining(model, tokenizer, names, options.aggregation_strategy or "simple")
    run = side_by_side(model, scores_by, placement)

    def predict(rows: pa.Table) -> pa.Table:
        windows, of_row = apart(rows, (TOKENS, TYPES, PLACES))
        texts = texts_of(rows, column)
        tokens, places = Ragged(windows[TOKENS]), Ragged(windows[PLACES])
        found: list[Any] = [None] * len(windows)
        for index, scores in run(inputs.batches(windows)):
            for at, each in zip(index, scores, strict=True):
                stand = places.row(at).reshape(-1, 2)
                found[at] = join.entities(texts[of_row[at]], tokens.row(at), stand, each)
        entities = pa.array(join.of_texts(found, of_row, len(rows)), ENTITIES)
        return with_columns(rows, {"entities": entities})

    return predict


def scores_by(model: Any) -> Call:
    """A model as what gives the scores of each text's own tokens.

    Raises:
        ValueError: one is no number.
    """

    def call(arguments: dict[str, Any]) -> list[Scores]:
        logits = model(**arguments).logits.float()
        is_own = arguments["attention_mask"].bool()
        heads.refuse_no_numbers(logits[is_own])
        scores = logits.softmax(-1).cpu().numpy()
        return [scores[at, :length] for at, length in enumerate(is_own.sum(-1).tolist())]

    return call


class Joining:
    """Puts labels of tokens together."""

    def __init__(self, model: Any, tokenizer: Any, names: list[str], strategy: str) -> None:
        from transformers import TokenClassificationPipeline
        from transformers.pipelines.token_classification import AggregationStrategy

        self.library = TokenClassificationPipeline(
            model=model, tokenizer=tokenizer, device=model.device
        )
        self.strategy = AggregationStrategy(strategy)
        self.means_none = np.array([name == NO_ENTITY for name in names])

    def entities(
        self, text: str, tokens: npt.NDArray[np.int32], places: Places, scores: Scores
    ) -> Entities:
        """What there is in a text.

        Most words of most texts are no entity, and the library would look at each token of theirs.
        """
        may_be = ~self.means_none[scores.argmax(-1)]
        found: Entities = []
        for part in parts_with(may_be, text, places):
            each = self.library.gather_pre_entities(
                text,
                tokens[part],
                scores[part],
                places[part],
                np.zeros(len(part), bool),
                self.strategy,
            )
            found += map(as_row, self.library.aggregate(each, self.strategy))
        return [each for each in found if each["entity_group"] != NO_ENTITY]

    def of_texts(self, found: list[Entities], of_text: Index, texts: int) -> list[Entities]:
        """What there is in texts, of which several windows may have been looked at.

        Args:
            found: in each window, in the order of the text.
            of_text: which text each window is of, in order.
            texts: how many there are.
        """
        joined: list[Entities] = [[] for _ in range(texts)]
        for text, each in zip(of_text.tolist(), found, strict=True):
            joined[text] += each
        several = np.bincount(of_text, minlength=texts) > 1
        for text in np.flatnonzero(several).tolist():
            joined[text] = self.library.aggregate_overlapping_entities(joined[text])
        return joined


def as_row(entity: dict[str, Any]) -> dict[str, Any]:
    """An entity under one name, whether it is a token's label or that of several."""
    group = entity.get("entity_group") or entity["entity"]
    return {name: entity.get(name) for name in ("score", "word", "start", "end")} | {
        "entity_group": group
    }


def parts_with(may_be: npt.NDArray[np.bool_], text: str, places: Places) -> Iterator[Any]:
    """Positions of tokens that stand side by side, in words of which each has one that may be.

    A word of whose tokens none is an entity is none however they are counted, and parts entities
    from each other. Words end at blanks here. The library's do as well, but for word pieces that
    are not as long as their text, as with a soft hyphen in it: it takes those for a part of the
    word before, and where that is no entity, for none.
    """
    real = np.flatnonzero(places[:, 0] != NOWHERE)
    if not may_be[real].any():
        return
    starts = places[real, 0]
    is_blank = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) == SPACE
    is_blank = np.append(is_blank, True)  # a token may stand at the end, and be empty
    begins = (starts == 0) | is_blank[starts] | is_blank[starts - 1]
    word = np.cumsum(begins)
    wanted = np.isin(word, word[may_be[real]])
    at = np.flatnonzero(wanted)
    yield from np.split(real[at], np.flatnonzero(np.diff(at) > 1) + 1)
