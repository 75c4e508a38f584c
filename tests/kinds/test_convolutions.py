"""Convolutional networks are made faster without another answer."""

import copy
from typing import Any

import pytest

from tasks.kinds.models.vision import convolutions

Modules = Any


def resnet() -> Modules:
    """A small one, whose normalisations have seen something."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    config = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2], num_labels=5)
    model = ResNetForImageClassification(config)
    for norm in norms(model):
        torch.nn.init.uniform_(norm.running_mean, -1, 1)
        torch.nn.init.uniform_(norm.running_var, 0.5, 2)
        torch.nn.init.uniform_(norm.weight, 0.5, 2)
        torch.nn.init.uniform_(norm.bias, -1, 1)
    return model.eval()


def norms(model: Modules) -> list[Modules]:
    """Normalisations that are left."""
    import torch

    return [each for each in model.modules() if type(each) is torch.nn.BatchNorm2d]


@pytest.fixture
def pictures() -> Modules:
    import torch

    return torch.randn(3, 3, 40, 40, generator=torch.Generator().manual_seed(1))


def test_normalisations_become_part_of_convolutions(pictures: Modules) -> None:
    import torch

    model = resnet()
    with torch.inference_mode():
        before = model(pictures).logits
        assert len(norms(model)) == 14
        convolutions.tune(model, lambda given: model(**given).logits, {"pixel_values": pictures})
        after = model(pictures).logits
    assert norms(model) == []
    assert (after - before).abs().max() <= 1e-5 * before.abs().max()
    first = model.resnet.embedder.embedder.convolution.weight
    assert first.is_contiguous(memory_format=torch.channels_last)


def test_an_output_that_something_else_reads_too_is_left_alone(pictures: Modules) -> None:
    import torch

    class Forked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, 4, 3)
            self.norm = torch.nn.BatchNorm2d(4)

        def forward(self, x: Modules) -> Modules:
            seen = self.convolution(x)
            return self.norm(seen) - seen

    torch.manual_seed(0)
    model = Forked()
    model.train()(pictures)
    model.eval()
    alone = copy.deepcopy(model)
    convolutions.tune(model, lambda given: model(given["x"]), {"x": pictures})
    assert len(norms(model)) == 1
    with torch.inference_mode():
        assert torch.allclose(model(pictures), alone(pictures), atol=1e-5)


def test_a_convolution_that_is_called_twice_is_left_alone(pictures: Modules) -> None:
    import torch

    torch.manual_seed(0)
    shared = torch.nn.Conv2d(3, 3, 3)
    model = torch.nn.Sequential(shared, torch.nn.BatchNorm2d(3), shared, torch.nn.BatchNorm2d(3))
    convolutions.tune(model.eval(), lambda given: model(given["x"]), {"x": pictures})
    assert len(norms(model)) == 2


def test_half_precision_is_not_folded(pictures: Modules) -> None:
    import torch

    model = resnet().to(torch.bfloat16)
    arguments = {"pixel_values": pictures.to(torch.bfloat16)}
    convolutions.tune(model, lambda given: model(**given).logits, arguments)
    assert len(norms(model)) == 14
