"""One ResNet-18 with torchvision's and with Hugging Face's names for its parts."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.torchvision_shim.models import as_tensor, settle

NAMES = (
    (r"^conv1\.", "resnet.embedder.embedder.convolution."),
    (r"^bn1\.", "resnet.embedder.embedder.normalization."),
    (r"^layer(\d)\.(\d)\.", "resnet.encoder.stages.{stage}.layers.{layer}."),
    (r"downsample\.0\.", "shortcut.convolution."),
    (r"downsample\.1\.", "shortcut.normalization."),
    (r"(?<=\d\.)conv(\d)\.", "layer.{part}.convolution."),
    (r"(?<=\d\.)bn(\d)\.", "layer.{part}.normalization."),
    (r"^fc\.", "classifier.1."),
)


def trained(pictures: list[np.ndarray], labels: Sequence[int], classes: int) -> Any:
    """A ResNet-18 of torchvision, random but for its last layer, which has learnt the pictures."""
    from torchvision import models

    torch.manual_seed(0)
    model = models.resnet18(weights=None, num_classes=classes)
    preset = models.ResNet18_Weights.DEFAULT.transforms()
    images = torch.stack([preset(as_tensor(each)) for each in pictures])
    settle(model, images)
    wanted = torch.nn.functional.one_hot(torch.tensor(labels), classes).float() * 8
    last, model.fc = model.fc, torch.nn.Identity()
    with torch.inference_mode():
        seen = model(images)
        middle = seen.mean(0)
        # Ridge regression: there are more features than pictures.
        gram = (seen - middle) @ (seen - middle).T + torch.eye(len(seen))
        weights = torch.linalg.solve(gram, wanted - wanted.mean(0)).T @ (seen - middle)
    with torch.no_grad():
        last.weight.copy_(weights)
        last.bias.copy_(wanted.mean(0) - weights @ middle)
    model.fc = last
    return model.eval()


def save_for_transformers(model: Any, classes: Sequence[str], folder: Path) -> Any:
    """The same model as transformers has it, saved with the same transforms."""
    from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessor

    config = ResNetConfig(
        embedding_size=64,
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        id2label=dict(enumerate(classes)),
        label2id={name: number for number, name in enumerate(classes)},
    )
    made = ResNetForImageClassification(config)
    made.load_state_dict({renamed(name): each for name, each in model.state_dict().items()})
    made.eval().save_pretrained(folder)
    ViTImageProcessor(
        size={"shortest_edge": 256},
        crop_size={"height": 224, "width": 224},
        do_center_crop=True,
        resample=2,
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    ).save_pretrained(folder)
    return made


def renamed(name: str) -> str:
    """What transformers calls a part that torchvision calls so."""
    for pattern, template in NAMES:
        found = re.search(pattern, name)
        if not found:
            continue
        numbers = [int(each) - 1 for each in found.groups()]
        part = numbers[0] if numbers else 0
        layer = numbers[1] + 1 if len(numbers) > 1 else 0
        new = template.format(stage=part, part=part, layer=layer)
        name = name[: found.start()] + new + name[found.end() :]
    return name
