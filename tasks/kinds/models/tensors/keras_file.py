"""What a file of Keras's holds, and the model in it."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from tasks.errors import InvalidSpec
from tasks.kinds import user_modules
from tasks.kinds.models.model import Placement
from tasks.kinds.models.tensors import torch_running
from tasks.kinds.models.tensors.inputs import Arrays, Input
from tasks.kinds.models.tensors.keras_backend import at_work
from tasks.kinds.models.tensors.outputs import named

HDF5 = b"\x89HDF"
CONFIG = "config.json"
SAVE = "load it with the Keras that wrote it, then model.save('model.keras')"


def check_file(file: IO[bytes]) -> None:
    """See that a file is a model that Keras 3 saved, without code of its own.

    Raises:
        ValueError: says why not, and the way out.
    """
    if "__lambda__" in class_names(config_in(file)):
        raise ValueError(
            "has a Lambda layer, whose Python code is never run: write the layer as a class, and "
            "list it in model.custom_objects"
        )


def config_in(file: IO[bytes]) -> Any:
    """The configuration in a file that Keras 3 saved.

    Raises:
        ValueError: there is none; says why not, and the way out.
    """
    if file.read(4) == HDF5:
        raise ValueError(f"is in the old HDF5 format: {SAVE}")
    if not zipfile.is_zipfile(file):
        raise ValueError(f"is not a .keras file: {SAVE}")
    with zipfile.ZipFile(file) as archive:
        if CONFIG not in archive.namelist():
            raise ValueError(f"is a zip file but not a .keras file: {SAVE}")
        try:
            return json.loads(archive.read(CONFIG))
        except (ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"is broken, its {CONFIG} cannot be read ({error}): {SAVE}") from error


def class_names(config: Any) -> Iterator[str]:
    """The classes that a configuration is made of."""
    if isinstance(config, dict):
        if isinstance(config.get("class_name"), str):
            yield config["class_name"]
        config = [*config.values()]
    for each in config if isinstance(config, list) else ():
        yield from class_names(each)


def load(keras: Any, path: Path, custom_objects: Sequence[str]) -> Any:
    """The model in a file, which may use no code but Keras's and what is named.

    Raises:
        InvalidSpec: it cannot be loaded.
    """
    found = [user_modules.load("model.custom_objects", each) for each in custom_objects]
    known = {each.__name__: each for each in found}
    try:
        return keras.saving.load_model(path, custom_objects=known, compile=False, safe_mode=True)
    except (TypeError, ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        if getattr(error, "errno", None) is not None:
            raise  # the disk's, and not that of the HDF5 in the file
        problem = (
            f"cannot be loaded by Keras {keras.__version__}: {reason(error)}. List your own "
            "layers in model.custom_objects, and check that the file is complete"
        )
        raise InvalidSpec.at("model.path", str(path), problem) from error


def reason(error: Exception) -> str:
    """The sentence of Keras's message that says what it met, out of pages of configuration."""
    told = str(error).rpartition("Exception encountered: ")[2]
    return told.splitlines()[0].partition(". ")[0].rstrip(".") if told else type(error).__name__


def inputs_of(model: Any) -> dict[str, Input]:
    """What a model says of its inputs; models that are subclasses say nothing."""
    tensors = getattr(model, "inputs", None) or []
    return {each.name: Input(numpys_type(each.dtype), tuple(each.shape)) for each in tensors}


def numpys_type(name: str) -> np.dtype:
    """NumPy's type for one of Keras's; texts, which TensorFlow alone takes, are objects."""
    return np.dtype(object if name == "string" else name)


def running(
    keras: Any, model: Any, placement: Placement, outputs: Sequence[str]
) -> Callable[[Iterator[Arrays]], dict[str, np.ndarray]]:
    """What runs batches, and gives all their outputs.

    Args:
        keras: the module.
        model: of it.
        placement: where it is.
        outputs: to keep; empty: all.
    """

    def run(batches: Iterator[Arrays]) -> dict[str, np.ndarray]:
        parts = []
        with at_work(keras, placement):
            for batch in batches:
                rows = len(next(iter(batch.values())))
                found = named(call(arguments(keras, model, batch)), outputs, rows)
                parts.append({name: as_numpy(values) for name, values in found.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def call(given: Any) -> Any:
        if keras.config.backend() == "torch":
            return with_names(model, model(given, training=False))
        return with_names(model, model.predict_on_batch(given))  # compiled

    return run


def arguments(keras: Any, model: Any, batch: Mapping[str, np.ndarray]) -> Any:
    """A batch in the structure that the model was built with."""
    structure = getattr(model, "input", None)
    if structure is not None:
        return keras.tree.pack_sequence_as(structure, [*batch.values()])
    return dict(batch) if len(batch) > 1 else next(iter(batch.values()))


def with_names(model: Any, returned: Any) -> Any:
    """A list of outputs by the names of the layers that made them, where each has made one."""
    names = getattr(model, "output_names", None) or ()
    if isinstance(returned, (list, tuple)) and len({*names}) == len(returned):
        return dict(zip(names, returned, strict=True))
    return returned


def as_numpy(values: Any) -> np.ndarray:
    """An array of any backend's; texts, which TensorFlow has as bytes, are such."""
    if hasattr(values, "detach"):
        return torch_running.as_numpy([values.detach()])
    found = np.asarray(values)
    return np.frompyfunc(bytes.decode, 1, 1)(found) if found.dtype == object else found
