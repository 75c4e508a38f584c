"""Where float32 is asked for on GPUs, nothing is calculated in TF32."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tasks.kinds.models import HuggingFaceModel, TorchModel, TorchvisionModel
from tasks.kinds.models.exact_floats import keep_float32_whole
from tasks.kinds.models.model import DType, Model, Placement
from tests.kinds.digits import digits_module
from tests.kinds.tiny_models import save_vit


@pytest.fixture(autouse=True)
def tf32() -> Iterator[None]:
    """On, as torch has it from the start."""
    import torch

    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.backends.cudnn.allow_tf32 = before


def precisions() -> set[str]:
    """Of convolutions and of recurrent layers."""
    import torch

    return {each.fp32_precision for each in (torch.backends.cudnn.conv, torch.backends.cudnn.rnn)}


@pytest.mark.parametrize(
    ("device", "dtype", "exact"),
    [
        ("cuda", "float32", True),
        ("cuda", "auto", False),
        ("cuda", "bfloat16", False),
        ("cpu", "float32", False),
    ],
)
def test_only_float32_on_a_gpu_is_kept_whole(device: str, dtype: DType, exact: bool) -> None:
    import torch

    keep_float32_whole(Placement(device, dtype=dtype))
    assert ("tf32" not in precisions()) is exact
    with torch.backends.cudnn.flags(enabled=True):  # the old way to ask still works
        assert torch.backends.cudnn.allow_tf32


def models(folder: Path) -> dict[str, Model]:
    """One of each kind that calculates with torch."""
    import torch

    save_vit(folder)
    torch.save(digits_module().state_dict(), folder / "weights.pt")
    task = "image-classification"
    given = {"path": str(folder / "weights.pt"), "class": "tests.kinds.torch_code:Digits"}
    return {
        "huggingface": HuggingFaceModel(task=task, name_or_path=str(folder)),
        "torch": TorchModel.model_validate({**given, "columns": ["pixels"]}),
        "torchvision": TorchvisionModel(name="resnet18", path=given["path"]),
    }


@pytest.mark.parametrize("kind", ["huggingface", "torch", "torchvision"])
@pytest.mark.usefixtures("torchvision")
def test_each_kind_of_torchs_keeps_it_whole(kind: str, tmp_path: Path) -> None:
    with suppress(Exception):  # of a machine without a GPU
        models(tmp_path)[kind].predictor(Placement("cuda", dtype="float32"))
    assert "tf32" not in precisions()


@pytest.mark.gpu
def test_a_convolution_is_that_of_float64() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    keep_float32_whole(Placement("cuda", dtype="float32"))
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(64, 64, 3).cuda()
    pixels = torch.randn(8, 64, 56, 56, device="cuda")

    def difference() -> Any:
        with torch.inference_mode():
            found = layer.float()(pixels).double()
            wanted = layer.double()(pixels.double())
        return ((found - wanted).abs().max() / wanted.abs().max()).item()

    assert difference() < 1e-5
