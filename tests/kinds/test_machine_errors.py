"""What the machine does to a model while it loads is no fault of its file: a retry can help."""

from inspect import currentframe
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import TorchvisionModel
from tasks.kinds.models.machine_errors import chain, is_of_the_machine, is_out_of_memory
from tasks.kinds.models.model import Placement
from tasks.kinds.models.tensors import onnx_session, torch_program
from tasks.kinds.models.vision.zoo import Architecture

MEMORY = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
DEVICE = type("AcceleratorError", (RuntimeError,), {})("CUDA error: the device is lost")
BROKEN = RuntimeError("PytorchStreamReader failed reading zip archive: not a ZIP archive")


class Failing:
    """Raises, whatever is asked of it."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise self.error


def load_script(patch: pytest.MonkeyPatch, error: Exception, path: Path) -> None:
    patch.setattr("torch.jit.load", Failing(error))
    torch_program.torchscript(path, "cuda")


def load_program(patch: pytest.MonkeyPatch, error: Exception, path: Path) -> None:
    patch.setattr("torch.export.load", Failing(error))
    torch_program.exported(path, "cuda")


def load_session(patch: pytest.MonkeyPatch, error: Exception, path: Path) -> None:
    patch.setattr("onnxruntime.InferenceSession", Failing(error))
    path.write_bytes(b"")
    onnx_session.opened(path, True, Placement())


def load_torchvision(patch: pytest.MonkeyPatch, error: Exception, path: Path) -> None:
    patch.setattr(TorchvisionModel, "state_dict", Failing(error))
    TorchvisionModel(name="resnet18", path=str(path)).built(Architecture("resnet18", None), [])


LOADS = [load_script, load_program, load_session, load_torchvision]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("error", [MEMORY, DEVICE], ids=["memory", "device"])
def test_what_is_the_machines_fault_stays_so(
    load: Any, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(type(error)) as raised:
        load(monkeypatch, error, tmp_path / "model")
    assert raised.value is error


@pytest.mark.parametrize("load", LOADS)
def test_what_is_the_files_fault_is_the_specs(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSpec, match=r"model\.path"):
        load(monkeypatch, BROKEN, tmp_path / "model")


def test_torchs_compiler_hides_nothing() -> None:
    """It says `from None`, and keeps what it has met."""
    from torch._inductor.exc import InductorError

    with pytest.raises(InductorError) as raised:
        raise InductorError(MEMORY, currentframe()) from None
    assert not is_out_of_memory(raised.value)
    assert is_of_the_machine(raised.value)
    assert any(map(is_out_of_memory, chain(raised.value)))


def test_memory_counts_as_the_machines() -> None:
    assert is_out_of_memory(MEMORY)
    assert is_of_the_machine(MEMORY)
    assert not is_of_the_machine(BROKEN)
