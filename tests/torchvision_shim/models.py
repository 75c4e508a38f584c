"""Models of torchvision with random weights that answer differently to different pictures."""

from typing import Any

import numpy as np
import torch

CLASSES = ["cat", "dog", "owl"]
OBJECTS = ["__background__", *CLASSES]


def classifier(name: str, classes: int, pictures: list[np.ndarray]) -> Any:
    """An image classifier."""
    from torchvision import models

    torch.manual_seed(0)
    model = models.get_model(name, weights=None, num_classes=classes)
    preset = models.get_model_weights(name).DEFAULT.transforms()
    settle(model, torch.stack([preset(as_tensor(each)) for each in pictures]))
    return model


def faster_rcnn(name: str, pictures: list[np.ndarray]) -> Any:
    """A detector of the classes in OBJECTS."""
    from torchvision import models

    torch.manual_seed(0)
    model = models.get_model(name, weights=None, weights_backbone=None, num_classes=len(OBJECTS))
    images, _ = model.eval().transform([as_tensor(each) / 255 for each in pictures])
    settle(model.backbone, images.tensors)
    with torch.no_grad():
        model.rpn.head.cls_logits.weight.mul_(10)
        model.roi_heads.box_predictor.cls_score.weight.normal_(std=0.1)
        model.roi_heads.box_predictor.bbox_pred.weight.normal_(std=0.1)
    return model.eval()


def settle(model: Any, images: torch.Tensor) -> None:
    """Let batch normalisation see some images: else hardly anything comes through to the end."""
    norms = [each for each in model.modules() if isinstance(each, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # the mean of all that it sees
    with torch.no_grad():
        model.train()(images)
    model.eval()


def as_tensor(image: np.ndarray) -> torch.Tensor:
    """(3, height, width) of bytes, as torchvision reads a file."""
    return torch.from_numpy(image.transpose(2, 0, 1).copy())
