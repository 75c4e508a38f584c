"""torchvision beside a torch that it was not built for: unpacked aside, its operators declared.

Beside a torch with CUDA, for which the wheel is built, the operators are torchvision's own.

Nothing is installed: transformers, once it finds torchvision, prepares images in other ways, and
all other tests are to see what users without torchvision see.
"""

import importlib
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tests.torchvision_shim import operators

ROOT = Path(__file__).parents[2]
DECLARED: list[torch.library.Library] = []
"""Kept for as long as the process lives: operators cannot be declared twice."""
LOADED: dict[str, ModuleType] = {}
"""torchvision's modules, while nobody may find them."""


class NoTorchvisionError(RuntimeError):
    """Its wheel cannot be had."""


def version() -> str:
    """The version that constraints.txt names."""
    found = re.search(r"^torchvision==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


def unpacked(cache: Path) -> Path:
    """A folder that holds torchvision and nothing that it depends on.

    Raises:
        NoTorchvisionError: pip cannot get it.
    """
    folder = cache / version()
    if not folder.exists():
        unfinished = cache / uuid.uuid4().hex  # several processes may do this at once
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        command += ["--target", str(unfinished), f"torchvision=={version()}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoTorchvisionError(f"pip cannot get torchvision: {done.stderr[-500:]}")
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let torchvision be imported, and by nobody afterwards; transformers takes no notice."""
    from transformers.utils import is_torchvision_available

    assert not is_torchvision_available()  # asked once, it never looks again
    sys.path.append(str(folder))
    sys.modules.update(LOADED)
    declare_what_is_missing()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        LOADED.update({n: m for n, m in sys.modules.items() if n.split(".")[0] == "torchvision"})
        for name in LOADED:
            del sys.modules[name]


def declare_what_is_missing() -> None:
    """The operators, once; with CUDA the wheel's library can be loaded, and declares them."""
    if torch.version.cuda is None and not DECLARED:
        DECLARED.append(declare())
        pretend_ops_are_there()


def declare() -> torch.library.Library:
    """The operators that classification and detection call."""
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    # Called by nothing here, but torchvision wants to find it.
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
        "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"
    )
    library.impl("nms", operators.nms, "CPU")
    library.impl("roi_align", operators.roi_align, "CPU")
    return library


def pretend_ops_are_there() -> None:
    """Make torchvision call the operators, which it does not where its library cannot be loaded."""
    importlib.import_module("torchvision")
    for name in ("torchvision.extension", "torchvision.ops.roi_align"):
        module: Any = sys.modules[name]
        module._has_ops = lambda: True
