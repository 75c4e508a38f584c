"""At which place of its text a token stands, where padding comes before it."""

import inspect
import sys
from typing import Any

COUNTS_ITSELF = "create_position_ids_from_input_ids"
"""What models of RoBERTa's kind have: they count real tokens, and from another number than 0."""


def takes_positions(model: Any) -> bool:
    """Whether a model that is not told the places of its tokens would count padding as well."""
    parts = [sys.modules.get(type(model).__module__), *model.modules()]
    if any(hasattr(each, COUNTS_ITSELF) for each in parts):
        return False
    return "position_ids" in inspect.signature(model.forward).parameters
