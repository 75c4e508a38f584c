"""Classification of photographs by a ResNet-50: the model takes nearly all time."""

from pathlib import Path
from typing import Any

from tests.benchmarks.workloads import images, pictures
from tests.benchmarks.workloads.workload import Size, Target

KEY = "path"
SIZES: dict[Size, int] = {"whole": 1_500, "small": 150, "tiny": 12}
TARGETS: dict[str, tuple[Target, ...]] = {
    "guide": (Target(1.5),),
    "plain": (Target(0.98), Target(0.95, "whole")),
    "floor": (Target(0.9), Target(0.85, "whole")),
}
CLASSES = 1_000
CALIBRATION = 8
ADDED = 0.2
make_inputs = pictures.make_inputs
compare = pictures.compare_labels


def make_weights(folder: Path, seed: int) -> None:
    """Random ones; the normalisations have seen a few pictures, so that something comes through."""
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessor

    torch.manual_seed(seed)
    config = ResNetConfig(
        id2label=pictures.names(CLASSES),
        label2id={name: number for number, name in pictures.names(CLASSES).items()},
    )
    model = ResNetForImageClassification(config)
    torch.nn.init.normal_(model.classifier[1].weight, std=0.1)
    calm(model)
    processor = ViTImageProcessor(**pictures.PROCESSOR)
    seen = [pictures.picture(seed, -1 - number) for number in range(CALIBRATION)]
    for each in model.modules():
        if isinstance(each, torch.nn.BatchNorm2d):
            each.momentum = None  # the mean of all that it sees
    inputs = processor(seen, return_tensors="pt")
    with torch.no_grad():
        model.train()(**inputs)
        centre(model.eval(), inputs)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def calm(model: Any) -> None:
    """Let blocks add little to what they are given, as trained ones do.

    Fifty random layers else make a difference of 2 % in the answer of one grey level.
    """
    for stage in model.resnet.encoder.stages:
        for block in stage.layers:
            block.layer[-1].normalization.weight.data.fill_(ADDED)


def centre(model: Any, inputs: Any) -> None:
    """Let no class be every picture's: what they have in common speaks for none."""
    common = model.resnet(**inputs).pooler_output.flatten(1).mean(0)
    classifier = model.classifier[1]
    classifier.bias.copy_(-(classifier.weight @ common))


def spec(inputs: Path, weights: Path, output: Path) -> dict[str, Any]:
    """Our run, with nothing set."""
    return {**images.spec(inputs, weights, output), "name": "cnn"}
