"""Layers that a checkpoint's sentence-transformers files put its vectors through."""

from collections.abc import Callable, Mapping
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import Checkpoint, only_tensors
from tasks.kinds.models.hf.heads import refuse_no_numbers
from tasks.kinds.models.hf.hub import FIELD
from tasks.kinds.models.hf.processor_files import WEIGHTS
from tasks.kinds.models.safetensors_file import check_whole

FUNCTIONS = "torch.nn.modules.activation."
"""How names of functions begin that stand behind a layer; another that there is, is none at all."""
IDENTITY = "torch.nn.modules.linear.Identity"
OF_TEXTS = "sentence_embedding"
"""What the library calls the vectors of texts; others are of their tokens."""

Layer = Callable[[Any], Any]


def layer_of(checkpoint: Checkpoint, folder: str, device: str) -> Layer:
    """A layer, from vectors to vectors.

    Raises:
        InvalidSpec: its files lack something, or ask for what is not supported.
    """
    import torch

    config = config_of(checkpoint, folder)
    sizes = config["in_features"], config["out_features"]
    linear = torch.nn.Linear(*sizes, bias=config.get("bias", True))
    function = function_of(checkpoint, config.get("activation_function") or f"{FUNCTIONS}Tanh")
    layer = torch.nn.ModuleDict({"linear": linear, "activation_function": function})
    try:
        layer.load_state_dict(weights_of(checkpoint, folder))
    except RuntimeError as error:
        problem = f"has weights in {folder} that do not fit its config.json: {error}"
        raise InvalidSpec.at(FIELD, checkpoint.name, problem) from error
    layer.to(device).eval()

    def call(vectors: Any) -> Any:
        refuse_no_numbers(vectors)  # of which some functions make numbers
        return function(linear(vectors))

    return call


def config_of(checkpoint: Checkpoint, folder: str) -> Mapping[str, Any]:
    """What a layer's file says of it.

    Raises:
        InvalidSpec: there is none, or it is of another kind of layer.
    """
    config: dict[str, Any] | None = checkpoint.json_file(f"{folder}/config.json")
    if config is None:
        raise lacking(checkpoint, f"{folder}/config.json")
    names = {config.get("module_input_name"), config.get("module_output_name")}
    if names - {None, OF_TEXTS} or config.get("use_residual"):
        problem = (
            f"has a layer, {folder}, that is added beside its input or works on tokens, which is "
            "not supported; set model.options.pooling and model.options.normalize to skip it"
        )
        raise InvalidSpec.at(FIELD, checkpoint.name, problem)
    return config


def function_of(checkpoint: Checkpoint, name: str) -> Any:
    """What is done with what a layer makes.

    Raises:
        InvalidSpec: it is no function of torch's own.
    """
    import torch

    found = getattr(torch.nn, name.rpartition(".")[-1], None)
    is_own = name == IDENTITY or name.startswith(FUNCTIONS)
    if not is_own or not isinstance(found, type):
        problem = (
            f"passes its vectors through {name}, which is not supported; set "
            "model.options.pooling and model.options.normalize to skip it"
        )
        raise InvalidSpec.at(FIELD, checkpoint.name, problem)
    return found()


def weights_of(checkpoint: Checkpoint, folder: str) -> Mapping[str, Any]:
    """A layer's weights, by name.

    Raises:
        InvalidSpec: there are none, or their file is broken, or holds more than tensors.
    """
    import torch
    from safetensors.torch import load_file

    tensors, pickled = (f"{folder}/{each}" for each in WEIGHTS)
    if path := checkpoint.file(tensors):
        try:
            with path.open("rb") as file:
                check_whole(file)
        except ValueError as error:
            problem = f"has a broken {tensors}: {error}"
            raise InvalidSpec.at(FIELD, checkpoint.name, problem) from error
        return dict(load_file(path))
    if path := checkpoint.file(pickled):
        with only_tensors(checkpoint.name):
            return dict(torch.load(path, map_location="cpu", weights_only=True))
    raise lacking(checkpoint, f"{tensors} or {pickled}")


def lacking(checkpoint: Checkpoint, files: str) -> InvalidSpec:
    """What to say of a layer that is not whole."""
    problem = (
        f"has no {files}, for a layer listed in its modules.json: copy it too, or set "
        "model.options.pooling and model.options.normalize to skip the layer"
    )
    return InvalidSpec.at(FIELD, checkpoint.name, problem)
