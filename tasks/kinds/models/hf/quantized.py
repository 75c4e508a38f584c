"""Models whose weights were quantised: transformers reads most kinds with a package of its own."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.hub import FIELD

SETTINGS = "quantization_config"
"""In config.json."""
BITSANDBYTES, ITS_SETTINGS = "bitsandbytes", ("load_in_4bit", "load_in_8bit")
"""It was the first one, and need not say its name; where neither is set, it has done nothing."""
PACKAGES = {
    BITSANDBYTES: ("bitsandbytes", "accelerate"),
    "gptq": ("gptqmodel", "optimum"),
    "awq": ("gptqmodel", "accelerate"),
    "compressed-tensors": ("compressed_tensors",),
    "torchao": ("torchao",),
    "hqq": ("hqq",),
    "aqlm": ("aqlm", "accelerate"),
    "fp8": ("accelerate",),
    "mxfp4": ("accelerate",),
}
"""Modules that transformers asks for, whatever it runs on, by the method; others it tells of."""


def refuse_lacking_packages(name: str, config: Mapping[str, Any]) -> None:
    """See that what reads a model's weights is installed, before anything starts.

    Args:
        name: of the model, as it was given.
        config: what its config.json holds.

    Raises:
        InvalidSpec: it is not.
    """
    method = method_of(config.get(SETTINGS) or {})
    lacking = [each for each in PACKAGES.get(method, ()) if importlib.util.find_spec(each) is None]
    if lacking:
        packages = " ".join(each.replace("_", "-") for each in lacking)
        problem = (
            f"has weights quantised with {method}, which need {packages}: pip install {packages}, "
            "here and on every node, or use the unquantised model"
        )
        raise InvalidSpec.at(FIELD, name, problem)


def method_of(settings: Mapping[str, Any]) -> str:
    """How weights were quantised; empty where they were not, or are widened without a package."""
    if any(settings.get(each) for each in ITS_SETTINGS):
        return BITSANDBYTES
    method = str(settings.get("quant_method", ""))
    is_widened = method == "mxfp4" and settings.get("dequantize")
    return "" if method == BITSANDBYTES or is_widened else method
