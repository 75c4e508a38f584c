"""Which of its three engines Keras computes with; a process has one, from its first import on."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

from tasks.errors import InvalidSpec
from tasks.kinds.models.model import Placement
from tasks.kinds.models.torch_threads import torch_threads

Backend = Literal["auto", "torch", "jax", "tensorflow"]
BACKENDS = ("torch", "jax", "tensorflow")
VARIABLE = "KERAS_BACKEND"


def chosen(backend: Backend) -> str:
    """The backend that `auto` stands for: the environment's, else torch, which is always there.

    Raises:
        InvalidSpec: the environment names another one.
    """
    name = os.environ.get(VARIABLE, "torch") if backend == "auto" else backend
    if name not in BACKENDS:
        problem = f"is {VARIABLE} in the environment, but it must be one of {', '.join(BACKENDS)}"
        raise InvalidSpec.at("model.backend", name, problem)
    return name


def keras_with(backend: str, num_threads: int = 1, device: str = "cpu") -> Any:
    """Keras, computing with a backend; some of their settings are of the whole process.

    Args:
        backend: by name.
        num_threads: that it may use.
        device: where it is to compute.

    Raises:
        InvalidSpec: this process has imported it with another.
    """
    if "keras" not in sys.modules:
        os.environ[VARIABLE] = backend
    import keras

    if keras.config.backend() != backend:
        problem = (
            "cannot be used: this process has already imported keras with "
            f"{keras.config.backend()}; set {VARIABLE} before it starts, or use another cluster "
            "than inline"
        )
        raise InvalidSpec.at("model.backend", backend, problem)
    if backend == "jax":
        # Else 64 bits are cut to 32: large numbers become others, and only a warning says so.
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    if backend == "tensorflow":
        with suppress(RuntimeError):  # it has begun
            threading = importlib.import_module("tensorflow").config.threading
            threading.set_intra_op_parallelism_threads(num_threads)
    if device == "cpu":
        leave_gpus(backend)
    return keras


def leave_gpus(backend: str) -> None:
    """Have a backend that computes on the CPU take no GPU: Ray hides none from who asked for none.

    JAX and TensorFlow fill all that they see when they begin; torch takes what it is told to.
    """
    if backend == "jax":
        importlib.import_module("jax").config.update("jax_platforms", "cpu")
    if backend == "tensorflow":
        with suppress(RuntimeError):  # it has begun
            importlib.import_module("tensorflow").config.set_visible_devices([], "GPU")


def refuse_fallback(keras: Any, device: str) -> None:
    """See that a model that was given a GPU does not run without.

    Raises:
        InvalidSpec: it would.
    """
    backend = keras.config.backend()
    if device != "cpu" and not sees_gpu(keras, backend):
        problem = (
            f"gives the model a GPU, but the {backend} on this node sees none: install one built "
            "for CUDA, or set resources.num_gpus to 0"
        )
        raise InvalidSpec.at("resources.num_gpus", device, problem)


def sees_gpu(keras: Any, backend: str) -> bool:
    """Whether a backend can compute on a GPU here."""
    if backend == "torch":
        import torch

        return bool(torch.cuda.is_available())
    try:
        return bool(keras.distribution.list_devices("gpu"))
    except RuntimeError:  # JAX's way to say none
        return False


@contextmanager
def at_work(keras: Any, placement: Placement) -> Iterator[None]:
    """On the replica's device, with its threads (JAX has no setting for them), no gradients."""
    with keras.device("cpu" if placement.device == "cpu" else "gpu:0"):
        if keras.config.backend() != "torch":
            yield
            return
        import torch

        with torch.inference_mode(), torch_threads(placement.num_threads):
            yield
