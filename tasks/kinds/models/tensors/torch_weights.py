"""A module of the user's, filled with weights from a file."""

from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds import user_modules
from tasks.kinds.models.tensors.torch_file import Content, state_dict_in
from tasks.kinds.secret_names import shown_at


def read(path: Path, content: Content, key: str | None) -> Mapping[str, Any]:
    """The state_dict in a file, in memory that all processes of a node share where it can be.

    Raises:
        InvalidSpec: there is none.
    """
    import torch
    from safetensors.torch import load_file

    if content == "safetensors":
        return dict(load_file(path))
    mapped = content == "weights"  # older files cannot be mapped
    found = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    try:
        return state_dict_in(found, key)
    except ValueError as error:
        raise InvalidSpec.at("model.path", str(path), str(error)) from error


def build(reference: str, init: Mapping[str, Any]) -> Any:
    """A module with the weights that its own code gives it.

    Raises:
        InvalidSpec: it cannot be made, or is no module.
    """
    import torch

    made = user_modules.load("model.class", reference)
    try:
        module = made(**init)
    except (TypeError, ValueError) as error:
        given = shown_at([], dict(init))
        raise InvalidSpec(f"model.init: {given} does not make {reference}: {error}") from error
    if not isinstance(module, torch.nn.Module):
        problem = f"makes a {type(module).__name__}, and a torch.nn.Module is wanted"
        raise InvalidSpec.at("model.class", reference, problem)
    return module


def fill(module: Any, weights: Mapping[str, Any], reference: str, path: str) -> None:
    """Give a module its weights; it takes the file's memory and precision as its own.

    Raises:
        InvalidSpec: a weight is missing, too much, or of another shape.
    """
    problem = f"does not fit {reference}: see model.class and model.init"
    weights = with_shared(module, weights)
    try:
        found = module.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:
        sizes = [line.strip() for line in str(error).splitlines()[1:]] or [str(error)]
        raise InvalidSpec.at("model.path", path, f"{problem}. {' '.join(sizes[:2])}") from error
    lacks, has = found.missing_keys, found.unexpected_keys
    if lacks or has:
        parts = [
            f"{verb} {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}"
            for verb, names in (("it lacks", lacks), ("it has besides", has))
            if names
        ]
        raise InvalidSpec.at("model.path", path, f"{problem}; {'; '.join(parts)}")


def with_shared(module: Any, weights: Mapping[str, Any]) -> Mapping[str, Any]:
    """A file's weights by all the names that they have in a module.

    Of a weight that several parts share, safetensors' save_model writes one name alone.
    """
    names_of = defaultdict[int, list[str]](list)
    for name, weight in module.state_dict(keep_vars=True).items():
        names_of[id(weight)].append(name)
    named: Any = copy(weights)  # a new dict would lose the versions that torch notes on its own
    for names in names_of.values():
        given = [name for name in names if name in weights]
        for name in names if given else ():
            named.setdefault(name, weights[given[0]])
    return named
