"""Where in its text each token stands, for models that say something of every token."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import Checkpoint

PLACES = "__places"
"""Of each token where it begins and where it ends, in characters: twice as many numbers."""
ASKED = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
"""What a tokenizer has to tell for that."""
Place = tuple[int, int]
"""Of a part of a text, where it begins and where it ends, in characters."""
NOWHERE = -1
"""Place of a token that the tokenizer has added, such as one that ends each text."""


def check_tokenizer(checkpoint: Checkpoint) -> None:
    """See that the tokenizer knows where its tokens stand.

    Raises:
        InvalidSpec: it does not.
    """
    if not checkpoint.tokenizer().is_fast:
        problem = (
            "has a tokenizer in Python, which does not give the positions of its tokens in the "
            "text: save a fast tokenizer into the folder, which AutoTokenizer gives if "
            "transformers has one"
        )
        raise InvalidSpec.at("model.name_or_path", checkpoint.name, problem)


def with_places(rows: pa.Table, encoded: dict[str, Any]) -> pa.Table:
    """The rows with `__places`, a list of whole numbers each.

    Args:
        rows: as many as there are texts.
        encoded: what the tokenizer has told of these; of no rows nothing.
    """
    offsets = encoded.get("offset_mapping", [])
    added = encoded.get("special_tokens_mask", [])
    places = [places_of(*each).ravel() for each in zip(offsets, added, strict=True)]
    return rows.append_column(PLACES, pa.array(places, pa.list_(pa.int32())))


def places_of(offsets: list[Place], added: list[int]) -> npt.NDArray[np.int32]:
    """Where a text's tokens stand, (n, 2)."""
    places = np.array(offsets, np.int32).reshape(-1, 2)
    places[np.array(added, bool)] = NOWHERE
    return places
