"""What a file of PyTorch's holds, found in the file itself; nothing in it is run for that."""

import json
import pickle
import zipfile
from collections.abc import Mapping
from typing import IO, Any, Literal

from tasks.kinds.models.safetensors_file import check_whole

Content = Literal["weights", "pickled weights", "safetensors", "exported program", "TorchScript"]
PROGRAMS: tuple[Content, ...] = ("exported program", "TorchScript")
PICKLES: tuple[Content, ...] = ("weights", "pickled weights")
SAVE_WEIGHTS = "save only its weights: torch.save(model.state_dict(), path)"
PICKLE = b"\x80"
CONSTANTS = "_constants_config.json"
TENSOR = "tensor_"
"""How the names of an exported program's constants begin where they are no pickled objects."""


def checked_content(file: IO[bytes], key: str | None) -> Content:
    """What a file holds; of a pickle, that it is a state_dict.

    Args:
        file: from its beginning.
        key: of the state_dict in a larger checkpoint.

    Raises:
        ValueError: nothing that can be loaded; says why, and the way out.
    """
    content = content_of(file)
    if content in PICKLES:
        check_pickle(file, key)
    return content


def content_of(file: IO[bytes]) -> Content:
    """What a file holds.

    Raises:
        ValueError: nothing that can be loaded; says why, and the way out.
    """
    start = file.read(9)
    file.seek(0)
    if zipfile.is_zipfile(file):
        file.seek(0)
        return content_of_zip(file)
    if start[8:] == b"{":  # after the header's length
        check_whole(file)
        return "safetensors"
    if start.startswith(PICKLE):
        return "pickled weights"  # as torch.save wrote them before PyTorch 1.6
    raise ValueError(
        "contains neither weights (torch.save of a state_dict, or safetensors) nor an exported "
        "program (torch.export.save) nor TorchScript"
    )


def content_of_zip(file: IO[bytes]) -> Content:
    """What a zip file of PyTorch's holds.

    Raises:
        ValueError: it is of another kind, or brings code that is not PyTorch's.
    """
    with zipfile.ZipFile(file) as archive:
        whole = archive.namelist()
        names = [name.partition("/")[2] for name in whole]  # all lies in one folder
        if any(name.startswith("data/aotinductor/") for name in names):
            raise ValueError(
                "is a compiled package, whose machine code cannot be checked: give the exported "
                "program it was made from"
            )
        if any(name.startswith("models/") for name in names):
            refuse_pickled_objects(archive)
            return "exported program"
    if "constants.pkl" in names:
        return "TorchScript"
    if "data.pkl" in names:
        return "weights"
    if "model.weights.h5" in whole:
        raise ValueError("is a Keras file: set model.kind to keras")
    raise ValueError("is a zip file that PyTorch did not write")


def refuse_pickled_objects(archive: zipfile.ZipFile) -> None:
    """Refuse an exported program that unpickles objects of any class when it is loaded.

    Raises:
        ValueError: it does.
    """
    for entry in archive.infolist():
        if entry.filename.endswith(CONSTANTS):
            config = json.loads(archive.read(entry))["config"]
            paths = [str(each["path_name"]) for each in config.values()]
            if odd := [each for each in paths if not each.startswith(TENSOR)]:
                raise ValueError(
                    f"contains pickled objects ({', '.join(odd[:3])}), which could run any code: "
                    "export the model without constants that are not tensors"
                )


def check_pickle(file: IO[bytes], key: str | None) -> None:
    """See that a pickle holds a state_dict, without reading the weights.

    Args:
        file: that torch.save wrote.
        key: of the state_dict in a larger checkpoint.

    Raises:
        ValueError: it holds something else; says what, and the way out.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    file.seek(0)
    try:
        with FakeTensorMode():  # tensors without data, as torch.load's documentation has it
            found = torch.load(file, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(
            "is not a plain state_dict, and other objects are never unpickled, since that could "
            f"run any code: {SAVE_WEIGHTS}. {reason(error)}"
        ) from error
    state_dict_in(found, key)


def state_dict_in(found: Any, key: str | None) -> Mapping[str, Any]:
    """The state_dict that a file holds, or holds under a key.

    Raises:
        ValueError: it holds none.
    """
    import torch

    if key is not None:
        if not isinstance(found, Mapping) or key not in found:
            has = [*found][:10] if isinstance(found, Mapping) else type(found).__name__
            raise ValueError(f"has nothing under model.state_dict_key {key!r}: it has {has}")
        found = found[key]
    if not isinstance(found, Mapping):
        raise ValueError(f"contains {type(found).__name__}, not a state_dict: {SAVE_WEIGHTS}")
    other = [name for name, value in found.items() if not isinstance(value, torch.Tensor)]
    if other:
        raise ValueError(
            f"contains more than tensors ({', '.join(map(str, other[:5]))}): set the key of the "
            f"state_dict in model.state_dict_key, or {SAVE_WEIGHTS}"
        )
    return found


def reason(error: Exception) -> str:
    """The sentence of torch's message that names what it met, out of a page."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "GLOBAL" in line or "Unsupported" in line]
    return (telling or lines or [type(error).__name__])[0].partition(" Please")[0]
