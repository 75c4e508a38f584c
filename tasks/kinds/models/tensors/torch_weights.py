"""A module of the user's, filled with weights from a file."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any, cast

from tasks.errors import InvalidSpec
from tasks.kinds import user_modules
from tasks.kinds.models.tensors.torch_file import Content, state_dict_in
from tasks.kinds.secret_names import shown_at

WRAPPERS = ("module.", "_orig_mod.", "model.")
"""Names of a module within DataParallel and DistributedDataParallel, within torch.compile's, and
within most people's LightningModule."""


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
        problem = f"makes an object of type {type(module).__name__}, not a torch.nn.Module"
        raise InvalidSpec.at("model.class", reference, problem)
    return module


def fill(module: Any, weights: Mapping[str, Any], reference: str, path: str) -> None:
    """Give a module its weights; it takes the file's memory and precision as its own.

    Raises:
        InvalidSpec: a weight is missing, too much, or of another shape.
    """
    problem = f"does not fit {reference}: check model.class and model.init"
    weights = with_shared(module, unwrapped(module, weights))
    try:
        found = module.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:
        sizes = [line.strip() for line in str(error).splitlines()[1:]] or [str(error)]
        raise InvalidSpec.at("model.path", path, f"{problem}. {' '.join(sizes[:2])}") from error
    lacks, has = found.missing_keys, found.unexpected_keys
    if lacks or has:
        parts = [
            f"{verb} {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}"
            for verb, names in (("it lacks", lacks), ("it also has", has))
            if names
        ]
        parts += within(module, weights)
        raise InvalidSpec.at("model.path", path, f"{problem}; {'; '.join(parts)}")


def unwrapped(module: Any, weights: Mapping[str, Any]) -> Mapping[str, Any]:
    """A file's weights by the names of the module, where a module around it was saved.

    All names in the file begin with what it is called in there then, as with `module.` of
    DataParallel's, or `model.` of a LightningModule's.
    """
    own, named = {*module.state_dict()}, weights
    while named and not own & {*named}:
        firsts = {name.partition(".")[0] for name in named}
        if len(firsts) > 1 or firsts & {*named}:
            break
        named = without(f"{firsts.pop()}.", named)
    return named if own & {*named} else weights


def without_wrappers(weights: Mapping[str, Any]) -> Mapping[str, Any]:
    """Weights by the names that they have within what DataParallel or torch.compile puts around.

    That is no part of a module, and its name begins all names in a file of its weights.
    """
    for prefix in wrappers_of([*weights]):
        weights = without(prefix, weights)
    return weights


def without(prefix: str, weights: Mapping[str, Any]) -> Mapping[str, Any]:
    """Weights by what is left of their names, all of which begin with the prefix."""
    from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

    named: Any = copy(weights)  # a new dict would lose the versions that torch notes on its own
    consume_prefix_in_state_dict_if_present(named, prefix)
    return cast("Mapping[str, Any]", named)


def wrappers_of(names: list[str]) -> Iterator[str]:
    """Beginnings that all names have from wrappers around a module, the outermost first."""
    while found := [each for each in WRAPPERS if names and all(n.startswith(each) for n in names)]:
        yield found[0]
        names = [each.removeprefix(found[0]) for each in names]


def within(module: Any, weights: Mapping[str, Any]) -> list[str]:
    """The way out where this module's weights are there, among those of a module around it."""
    own, names = {*module.state_dict()}, {*weights}
    for prefix in sorted({f"{name.partition('.')[0]}." for name in names}):
        if own and {f"{prefix}{name}" for name in own} <= names:
            return [
                f"all it needs begins with {prefix!r}, in a module around this one: save that "
                "part's own state_dict, or set the outer module in model.class"
            ]
    return []


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
