"""Graphs that were made of a model in training: some of its layers draw at random, or mix rows."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec

TOLD = ("train", "training")
"""Arguments of layers that are to be told; where a graph was made, it holds what they were told."""
SHARES = ("p", "dropout")
"""Arguments that say how much of its input a layer leaves out; of nothing, it does no harm."""
UNKNOWN = object()
"""The value of an argument that is no constant of the graph."""

Arguments = Mapping[str, Any]
Call = tuple[str, Arguments]
"""The name of what a graph calls, and what it is called with."""


def refuse_training(calls: Iterator[Call], path: Path) -> None:
    """See that a graph was not made of a model in training.

    Args:
        calls: what it calls.
        path: of its file.

    Raises:
        InvalidSpec: it was.
    """
    for name, arguments in calls:
        if trains(arguments):
            problem = (
                f"was exported from a model in training mode ({name}): its results are random or "
                "depend on other rows. Call model.eval() and export it again; if randomness is "
                "intended, give the weights with model.class"
            )
            raise InvalidSpec.at("model.path", str(path), problem)


def trains(arguments: Arguments) -> bool:
    """Whether a layer does something else than it would in evaluation."""
    if not any(arguments.get(name) is True for name in TOLD):
        return False
    leaves_out = all(arguments.get(name) != 0 for name in SHARES)
    # A normalisation that has kept no statistics takes those of the rows in evaluation, too.
    return leaves_out and arguments.get("running_mean", UNKNOWN) is not None


def calls_of_program(program: Any) -> Iterator[Call]:
    """What an exported program calls, in its branches, too."""
    from torch.fx import GraphModule

    parts = [part for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    for node in (node for part in parts for node in part.graph.nodes):
        if node.op == "call_function" and hasattr(node.target, "_schema"):
            names = [each.name for each in node.target._schema.arguments]
            yield str(node.target), {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def calls_of_script(module: Any) -> Iterator[Call]:
    """What a TorchScript module calls that is told whether it trains."""
    import torch

    for node in nodes_in(module.inlined_graph):
        schema = node.schema()
        if any(f"bool {name}" in schema for name in TOLD):
            names = [each.name for each in torch._C.parse_schema(schema).arguments]
            yield node.kind(), dict(zip(names, map(constant, node.inputs()), strict=False))


def nodes_in(block: Any) -> Iterator[Any]:
    """All nodes of a graph of TorchScript."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_in(inner)


def constant(value: Any) -> Any:
    """A value that is known before the graph runs, or UNKNOWN."""
    return value.toIValue() if value.node().kind() == "prim::Constant" else UNKNOWN
