"""Detectors of a few thousand random weights; they find much, and nothing that is there."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import saved

NAMES = {0: "cat", 1: "dog", 2: "owl"}
LABELS: dict[str, Any] = {"id2label": NAMES, "label2id": {name: at for at, name in NAMES.items()}}
SIZE = {"shortest_edge": 48, "longest_edge": 96}


def save_detr(folder: Path, **processor: Any) -> Any:
    """DETR: images keep their proportions, and are masked where they are padded."""
    import torch
    from transformers import DetrConfig, DetrForObjectDetection, DetrImageProcessorPil

    torch.manual_seed(0)
    config = DetrConfig(
        use_timm_backbone=False,
        backbone_config=resnet(),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=12,
        init_xavier_std=4.0,
        **LABELS,
    )
    DetrImageProcessorPil(**{"size": SIZE, **processor}).save_pretrained(folder)
    return saved(spread(DetrForObjectDetection(config)), folder)


def save_yolos(folder: Path, **processor: Any) -> Any:
    """YOLOS: a vision transformer alone."""
    import torch
    from transformers import YolosConfig, YolosForObjectDetection, YolosImageProcessorPil

    torch.manual_seed(0)
    config = YolosConfig(
        image_size=[48, 64],
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_detection_tokens=10,
        initializer_range=0.3,
        **LABELS,
    )
    YolosImageProcessorPil(**{"size": SIZE, **processor}).save_pretrained(folder)
    return saved(spread(YolosForObjectDetection(config)), folder)


def save_rt_detr(folder: Path, **processor: Any) -> Any:
    """RT-DETR: images are stretched; scores are not shared out among the classes."""
    import torch
    from transformers import (
        RTDetrConfig,
        RTDetrForObjectDetection,
        RTDetrImageProcessorPil,
        RTDetrResNetConfig,
    )

    torch.manual_seed(0)
    backbone = RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = RTDetrConfig(
        backbone_config=backbone,
        encoder_hidden_dim=16,
        encoder_in_channels=[8, 16, 16],
        encoder_ffn_dim=32,
        encoder_attention_heads=2,
        d_model=16,
        num_queries=15,
        decoder_in_channels=[16, 16, 16],
        decoder_ffn_dim=32,
        decoder_layers=1,
        decoder_attention_heads=2,
        num_denoising=0,
        anchor_image_size=None,
        **LABELS,
    )
    size = {"size": {"height": 64, "width": 64}}
    RTDetrImageProcessorPil(**{**size, **processor}).save_pretrained(folder)
    return saved(spread(RTDetrForObjectDetection(config)), folder)


def resnet() -> Any:
    """A convolutional backbone."""
    from transformers import ResNetConfig

    return ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        layer_type="basic",
        out_features=["stage2"],
    )


def spread(model: Any) -> Any:
    """Larger weights: with usual ones a random model hardly tells one place from another."""
    import torch

    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim > 1 and "backbone" not in name:
                scale = 3 if "input_projection" in name else 0.3
                weights.normal_(std=scale)
    return model


DETECTORS = {"detr": save_detr, "yolos": save_yolos, "rt_detr": save_rt_detr}
