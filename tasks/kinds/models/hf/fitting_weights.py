"""Whether the weights of a checkpoint are those that its config.json and the task ask for."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf import hub

LAYER = re.compile(r"(?<=\.)\d+(?=\.)")
"""Its number, in the name of a weight."""
FURTHER_TOKENS = "num_nextn_predict_layers"
"""In configurations: how many layers come after the last one, to guess more than the next token;
transformers leaves them out."""


def refuse_other_weights(name: str, model: Any, found: Mapping[str, Any], unused: str) -> None:
    """See that a checkpoint has all weights of a model, as it wants them, and no layer more.

    Args:
        name: of the checkpoint.
        model: as the configuration makes it.
        found: what transformers says of loading it.
        unused: what stands in the names of weights that may be missing.

    Raises:
        InvalidSpec: it has not; says which.
    """
    refuse_other_shapes(name, found["mismatched_keys"])
    refuse_fewer_layers(name, model, found["unexpected_keys"])
    lacking = found["missing_keys"]
    missing = sorted(key for key in lacking if not unused or unused not in f".{key}")
    if missing:
        problem = (
            f"lacks weights that {type(model).__name__} needs ({', '.join(missing[:3])}): it was "
            "trained for something else; use a checkpoint trained for model.task"
        )
        raise InvalidSpec.at(hub.FIELD, name, problem)


def refuse_other_shapes(name: str, mismatched: Iterable[tuple[str, Any, Any]]) -> None:
    """See that weights have the shapes that the configuration asks for.

    Args:
        name: of the checkpoint.
        mismatched: names of those that have not, their shapes, and the shapes wanted.

    Raises:
        InvalidSpec: one has not.
    """
    for key, own, wanted in sorted(mismatched):
        problem = (
            f"does not fit its config.json: {key} has shape {(*own,)}, but {(*wanted,)} is "
            "expected; check that id2label names each class, and that both files are from the "
            "same model"
        )
        raise InvalidSpec.at(hub.FIELD, name, problem)


def refuse_fewer_layers(name: str, model: Any, unexpected: Iterable[str]) -> None:
    """See that the configuration leaves out no layer that the checkpoint has weights of.

    Args:
        name: of the checkpoint.
        model: as the configuration makes it.
        unexpected: names of weights that have no place in it, such as those of another head.

    Raises:
        InvalidSpec: it does; the model would give other numbers, and nothing would say so.
    """
    if getattr(model.config.get_text_config(), FURTHER_TOKENS, None):
        return
    prefix = f"{model.base_model_prefix}."
    own = {*model.state_dict()}
    own |= {f"{prefix}{weight}" for weight in own}
    of_any_layer = {LAYER.sub("#", weight) for weight in own}
    there = {layer for weight in own for layer in layers_of(weight)}
    for key in sorted(unexpected):
        for weight in (key, f"{prefix}{key}"):
            # A layer that is there may have more weights than it needs.
            if there.issuperset(layers_of(weight)) or LAYER.sub("#", weight) not in of_any_layer:
                continue
            problem = (
                f"does not fit its config.json: {key} belongs to a layer that config.json leaves "
                "out; check the number of layers there, and that both files are from the same "
                "model"
            )
            raise InvalidSpec.at(hub.FIELD, name, problem)


def layers_of(weight: str) -> list[str]:
    """The layers that a weight is of, by their numbers: the outermost first."""
    return [weight[: found.end()] for found in LAYER.finditer(weight)]
