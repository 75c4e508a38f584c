"""Python code that a checkpoint brings: it is never run, and what that means is said."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

from tasks.kinds.models.hf.hub import FIELD

OWN_CODE = (
    "contains its own Python code, which is never run: use a model that transformers itself has "
    "a class for; or load this one in your own class, with kind: python, if you trust its code"
)

logger = logging.getLogger(__name__)


def tell_of_code(name: str, config: Mapping[str, Any], model_type: str) -> None:
    """Say that a model's own code is not what predicts, where transformers knows its type.

    Args:
        name: of the checkpoint.
        config: what its config.json holds.
        model_type: which transformers has a class for.
    """
    for auto_class, own in (config.get("auto_map") or {}).items():
        if auto_class.startswith("AutoModel"):
            tell_once(name, str(own), model_type)


@cache
def tell_once(name: str, own: str, model_type: str) -> None:
    """Say it.

    The code may do as transformers' class of that type does, or something else with the same
    weights, such as to read texts in both directions; nothing in the files tells.
    """
    logger.warning(
        "%s: %r contains its own Python code (%s), which is never run: transformers' class for "
        "the type %s predicts instead. Compare some predictions with those its authors show; if "
        "they differ, load it in your own class, with kind: python, if you trust its code",
        FIELD,
        name,
        own,
        model_type,
    )
