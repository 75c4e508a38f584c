"""What was exported from a model in training is refused: its answers are no function of a row."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models.tensors import torch_program
from tests.kinds.torch_code import Bare, Branch

Make = Callable[[Any], Any]
"""Makes a layer, of torch.nn, which is imported late."""
LAYERS: dict[str, Make] = {
    "dropout": lambda nn: nn.Dropout(0.5),
    "alpha_dropout": lambda nn: nn.AlphaDropout(0.5),
    "batch_norm": lambda nn: nn.BatchNorm1d(3),
    "rrelu": lambda nn: nn.RReLU(),
}
UNCHANGED: list[Make] = [
    lambda nn: nn.Dropout(0.0),
    lambda nn: nn.BatchNorm1d(3, track_running_stats=False),
]


def rows() -> Any:
    import torch

    return torch.arange(12, dtype=torch.float32).reshape(4, 3)


def bare(make: Make) -> Any:
    from torch import nn

    return Bare(make(nn)).train()


def program(module: Any, folder: Path) -> Any:
    import torch

    file = folder / "program.pt2"
    torch.export.save(torch.export.export(module, (rows(),)), file)
    return torch_program.exported(file, "cpu").module


def traced(module: Any, folder: Path) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a call that is no more for new code
        return loaded(torch.jit.trace(module, rows(), check_trace=False), folder)


def scripted(module: Any, folder: Path) -> Any:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loaded(torch.jit.script(module), folder)


def loaded(module: Any, folder: Path) -> Any:
    module.save(folder / "script.pt")
    return torch_program.torchscript(folder / "script.pt", "cpu")


def is_as_in_evaluation(loaded: Any, module: Any) -> bool:
    import torch

    with torch.no_grad():
        return torch.allclose(loaded(rows()), module.eval()(rows()))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_model_in_training_is_refused(layer: str, tmp_path: Path) -> None:
    module = bare(LAYERS[layer])
    problem = rf"in training mode \(\S*{layer}\S*\): .*Call model\.eval\(\) and export it again"
    for export in (program, traced):
        with pytest.raises(InvalidSpec, match=problem):
            export(module.train(), tmp_path)
        assert is_as_in_evaluation(export(module.eval(), tmp_path), module)


@pytest.mark.parametrize("layer", ["dropout", "batch_norm"])
def test_a_script_is_told_anew_whether_it_trains(layer: str, tmp_path: Path) -> None:
    module = bare(LAYERS[layer])
    assert is_as_in_evaluation(scripted(module, tmp_path), module)


@pytest.mark.parametrize("make", UNCHANGED)
def test_what_training_does_not_change_is_taken(make: Make, tmp_path: Path) -> None:
    for export in (program, traced):
        module = bare(make)
        assert is_as_in_evaluation(export(module, tmp_path), module)


def test_a_branch_in_training_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"in training mode \(aten\.dropout"):
        program(Branch().train(), tmp_path)
    assert is_as_in_evaluation(program(Branch().eval(), tmp_path), Branch())
