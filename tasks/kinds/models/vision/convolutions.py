"""Convolutional networks as fast as eager PyTorch runs them, with the same answers.

Batch normalisation is a multiplication and an addition for each channel once a model is trained;
here they become part of the convolution before it. Pixels lie with their channels side by side.
Both change the order in which floats are added, and so the last bits of what comes out.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from tasks.kinds.models.runtimes.comparing import TOLERANCE, largest_difference

Arguments = dict[str, Any]
Forward = Callable[[Arguments], Any]
Place = tuple[Any, str]
"""A module and the name of one of its children."""


def tune(model: Any, forward: Forward, example: Arguments) -> None:
    """Make a network faster where it has batch normalisations, on a CPU and on a GPU.

    Args:
        model: in evaluation mode, on its device; changed in place.
        forward: calls it.
        example: made-up arguments for one row; what is in them is replaced by noise.
    """
    import torch

    if not any(type(each) is torch.nn.BatchNorm2d for each in model.modules()):
        return
    with torch.no_grad():
        example = {name: noise_like(value) for name, value in example.items()}
        if next(model.parameters()).dtype == torch.float32:
            fold_batch_norms(model, forward, example)
    model.to(memory_format=torch.channels_last)


def noise_like(value: Any) -> Any:
    """The same noise every time, of a tensor's shape, type and device."""
    import torch

    noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(0))
    return noise.to(value.device, value.dtype)


def fold_batch_norms(model: Any, forward: Forward, example: Arguments) -> None:
    """Put each batch normalisation into the convolution whose output it alone reads.

    Whether something else reads that output too is seen from the answer: with another one all is
    put back.
    """
    from torch.nn import Identity
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    before, pairs = observed(model, forward, example)
    places = {each: (parent, name) for parent in model.modules() for name, each in children(parent)}
    for convolution, norm in pairs:
        put(places[convolution], fuse_conv_bn_eval(convolution, norm))
        put(places[norm], Identity())
    if largest_difference([before], [forward(example)]) > TOLERANCE:
        for module in (each for pair in pairs for each in pair):
            put(places[module], module)


def children(module: Any) -> list[tuple[str, Any]]:
    """A module's children by name, those that have several names too."""
    return [(name, each) for name, each in module._modules.items() if each is not None]


def put(place: Place, module: Any) -> None:
    """Put a module in another's place."""
    parent, name = place
    parent._modules[name] = module


def observed(model: Any, forward: Forward, example: Arguments) -> tuple[Any, list[tuple[Any, Any]]]:
    """What comes out, and the pairs of convolution and normalisation, each called once, in a row.

    Networks name and nest their parts as they please, so this looks at what is called.
    """
    from torch.nn import BatchNorm2d, Conv2d

    calls: Counter[Any] = Counter()
    made: dict[int, tuple[Any, Any]] = {}
    """By a tensor's identity: the tensor, kept so that no other takes it, and what made it."""
    pairs: list[tuple[Any, Any]] = []

    def note(module: Any, given: tuple[Any, ...], output: Any) -> None:
        calls[module] += 1
        if type(module) is Conv2d:
            made[id(output)] = (output, module)
        elif given and id(given[0]) in made and module.running_mean is not None:
            pairs.append((made[id(given[0])][1], module))

    kinds = (Conv2d, BatchNorm2d)
    hooks = [each.register_forward_hook(note) for each in model.modules() if type(each) in kinds]
    try:
        output = forward(example)
    finally:
        for hook in hooks:
            hook.remove()
    names = Counter(each for parent in model.modules() for _, each in children(parent))
    once = [all(calls[each] == names[each] == 1 for each in pair) for pair in pairs]
    return output, [pair for pair, alone in zip(pairs, once, strict=True) if alone]
