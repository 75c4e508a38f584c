"""Models of a few thousand random weights that estimate depths."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import saved

SQUARE: dict[str, Any] = {"size": {"height": 32, "width": 32}}
FITTED: dict[str, Any] = {"keep_aspect_ratio": True, "ensure_multiple_of": 8}


def save_dpt(folder: Path) -> Any:
    """DPT: square images."""
    import torch
    from transformers import DPTForDepthEstimation, DPTImageProcessorPil

    torch.manual_seed(0)
    DPTImageProcessorPil(**SQUARE).save_pretrained(folder)
    return saved(lively(DPTForDepthEstimation(dpt())), folder)


def dpt() -> Any:
    """Of 32 x 32 pixels."""
    from transformers import DPTConfig

    return DPTConfig(
        image_size=32,
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=32,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
        initializer_range=0.3,
    )


def save_depth_anything(folder: Path) -> Any:
    """Depth Anything: images keep their proportions, in whole patches."""
    import torch
    from transformers import (
        DepthAnythingConfig,
        DepthAnythingForDepthEstimation,
        Dinov2Config,
        DPTImageProcessorPil,
    )

    torch.manual_seed(0)
    backbone = Dinov2Config(
        image_size=32,
        patch_size=8,
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        mlp_ratio=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
        initializer_range=0.3,
    )
    config = DepthAnythingConfig(
        backbone_config=backbone,
        patch_size=8,
        reassemble_hidden_size=16,
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
        head_hidden_size=8,
        initializer_range=0.3,
    )
    DPTImageProcessorPil(**SQUARE, **FITTED).save_pretrained(folder)
    return saved(lively(DepthAnythingForDepthEstimation(config)), folder)


def save_glpn(folder: Path) -> Any:
    """GLPN: images as large as they are, but for what is less than 32 pixels."""
    import torch
    from transformers import GLPNConfig, GLPNForDepthEstimation, GLPNImageProcessorPil

    torch.manual_seed(0)
    config = GLPNConfig(
        depths=[1, 1, 1, 1],
        sr_ratios=[4, 2, 1, 1],
        hidden_sizes=[8, 8, 16, 16],
        num_attention_heads=[1, 1, 2, 2],
        mlp_ratios=[2, 2, 2, 2],
        decoder_hidden_size=16,
        initializer_range=0.3,
    )
    GLPNImageProcessorPil().save_pretrained(folder)
    return saved(lively(GLPNForDepthEstimation(config)), folder)


def lively(model: Any) -> Any:
    """Larger weights of convolutions: else each place looks like the next."""
    import torch

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Conv2d):
                module.weight.normal_(std=0.3)
    return model


ESTIMATORS = {"dpt": save_dpt, "depth anything": save_depth_anything, "glpn": save_glpn}


def save_zoedepth(folder: Path) -> Any:
    """ZoeDepth, trained for rooms and for streets: which of the two a batch shows is voted on."""
    import torch
    from transformers import (
        BeitConfig,
        ZoeDepthConfig,
        ZoeDepthForDepthEstimation,
        ZoeDepthImageProcessorPil,
    )

    torch.manual_seed(0)
    backbone = BeitConfig(
        image_size=32,
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=32,
        use_relative_position_bias=True,
        reshape_hidden_states=False,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        initializer_range=0.3,
    )
    rooms = {"name": "rooms", "n_bins": 8, "min_depth": 0.1, "max_depth": 10.0}
    streets = {"name": "streets", "n_bins": 8, "min_depth": 0.1, "max_depth": 80.0}
    config = ZoeDepthConfig(
        backbone_config=backbone,
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=16,
        num_relative_features=8,
        bottleneck_features=16,
        num_attractors=[4, 4, 2, 1],
        bin_embedding_dim=8,
        bin_configurations=[rooms, streets],
        num_patch_transformer_layers=4,
        patch_transformer_hidden_size=128,
        patch_transformer_intermediate_size=16,
        patch_transformer_num_attention_heads=2,
        initializer_range=0.3,
    )
    ZoeDepthImageProcessorPil(**SQUARE, ensure_multiple_of=8).save_pretrained(folder)
    model = lively(ZoeDepthForDepthEstimation(config))
    with torch.no_grad():
        model.metric_head.mlp_classifier.linear2.bias[1] -= 16.5  # so that both are seen
    return saved(model, folder)
