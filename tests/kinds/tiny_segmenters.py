"""Segmenters of a few thousand random weights; what they see is not there."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_detectors import resnet
from tests.kinds.tiny_models import saved

NAMES = {0: "sky", 1: "road", 2: "tree", 3: "cat", 4: "sea", 5: "wall"}
LABELS: dict[str, Any] = {"id2label": NAMES, "label2id": {name: at for at, name in NAMES.items()}}
SQUARE: dict[str, Any] = {"size": {"height": 64, "width": 64}}
PROPORTIONS = {"size": {"shortest_edge": 48, "longest_edge": 96}}


def save_segformer(folder: Path, processor: dict[str, Any] = SQUARE, **changes: Any) -> Any:
    """SegFormer: scores for a quarter of the places each way."""
    import torch
    from transformers import (
        SegformerConfig,
        SegformerForSemanticSegmentation,
        SegformerImageProcessorPil,
    )

    torch.manual_seed(0)
    config = SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[4, 2],
        hidden_sizes=[16, 16],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        initializer_range=0.3,
        **{**LABELS, **changes},
    )
    SegformerImageProcessorPil(**processor).save_pretrained(folder)
    return saved(centred(SegformerForSemanticSegmentation(config)), folder)


def save_beit(folder: Path) -> Any:
    """BEiT: images of one size alone, resized by cubes."""
    import torch
    from transformers import BeitConfig, BeitForSemanticSegmentation, BeitImageProcessorPil

    torch.manual_seed(0)
    config = BeitConfig(
        image_size=32,
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=32,
        out_indices=[1, 2, 3, 4],
        pool_scales=[1, 2],
        initializer_range=0.3,
        use_auxiliary_head=False,
        use_relative_position_bias=True,
        **LABELS,
    )
    BeitImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return saved(centred(BeitForSemanticSegmentation(config)), folder)


def save_upernet(folder: Path) -> Any:
    """UperNet around a ConvNeXt, with the head of its training; gives as many scores as pixels."""
    import torch
    from transformers import (
        ConvNextConfig,
        SegformerImageProcessorPil,
        UperNetConfig,
        UperNetForSemanticSegmentation,
    )

    torch.manual_seed(0)
    sizes = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "initializer_range": 0.3}
    backbone = ConvNextConfig(**sizes, out_features=["stage1", "stage2", "stage3", "stage4"])
    config = UperNetConfig(
        backbone_config=backbone,
        hidden_size=16,
        pool_scales=[1, 2],
        auxiliary_in_channels=16,
        auxiliary_channels=8,
        initializer_range=0.3,
        **LABELS,
    )
    SegformerImageProcessorPil(**SQUARE).save_pretrained(folder)
    return saved(centred(UperNetForSemanticSegmentation(config)), folder)


def save_dpt(folder: Path) -> Any:
    """DPT: square images, resized in a way of its own."""
    import torch
    from transformers import DPTConfig, DPTForSemanticSegmentation, DPTImageProcessorPil

    torch.manual_seed(0)
    config = DPTConfig(
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
        **LABELS,
    )
    DPTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return saved(centred(DPTForSemanticSegmentation(config)), folder)


def save_mobilevit(folder: Path) -> Any:
    """MobileViT, whose processor turns colours round, and cuts borders off where it is let."""
    import torch
    from transformers import (
        MobileViTConfig,
        MobileViTForSemanticSegmentation,
        MobileViTImageProcessorPil,
    )

    torch.manual_seed(0)
    config = MobileViTConfig(
        hidden_sizes=[8, 8, 8],
        neck_hidden_sizes=[8, 8, 8, 8, 8, 8, 16],
        num_attention_heads=2,
        mlp_ratio=1.0,
        aspp_out_channels=8,
        atrous_rates=[2, 4, 6],
        initializer_range=0.3,
        **LABELS,
    )
    crop = {"size": {"shortest_edge": 72}, "crop_size": {"height": 64, "width": 64}}
    MobileViTImageProcessorPil(**crop).save_pretrained(folder)
    return saved(centred(MobileViTForSemanticSegmentation(config)), folder)


def save_mobilenet(folder: Path) -> Any:
    """MobileNet of the second version: convolutions alone."""
    import torch
    from transformers import (
        MobileNetV2Config,
        MobileNetV2ForSemanticSegmentation,
        MobileNetV2ImageProcessorPil,
    )

    torch.manual_seed(0)
    config = MobileNetV2Config(depth_multiplier=0.1, output_stride=8, **LABELS)
    crop = {"size": {"shortest_edge": 72}, "crop_size": {"height": 64, "width": 64}}
    MobileNetV2ImageProcessorPil(**crop).save_pretrained(folder)
    return saved(centred(MobileNetV2ForSemanticSegmentation(config)), folder)


def swin() -> Any:
    """A backbone of four stages."""
    from transformers import SwinConfig

    return SwinConfig(
        image_size=64,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        initializer_range=0.3,
    )


def save_mask2former(folder: Path) -> Any:
    """Mask2Former: masks, each with a score for each class and for none of them."""
    import torch
    from transformers import (
        Mask2FormerConfig,
        Mask2FormerForUniversalSegmentation,
        Mask2FormerImageProcessorPil,
    )

    torch.manual_seed(0)
    config = Mask2FormerConfig(
        backbone_config=swin(),
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=32,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        dim_feedforward=32,
        num_queries=10,
        **LABELS,
    )
    Mask2FormerImageProcessorPil(**PROPORTIONS).save_pretrained(folder)
    return saved(spread_heads(Mask2FormerForUniversalSegmentation(config)), folder)


def save_maskformer(folder: Path) -> Any:
    """MaskFormer: the same, of an older kind."""
    import torch
    from transformers import (
        DetrConfig,
        MaskFormerConfig,
        MaskFormerForInstanceSegmentation,
        MaskFormerImageProcessorPil,
    )

    torch.manual_seed(0)
    decoder = DetrConfig(
        use_timm_backbone=False,
        backbone_config=resnet(),
        d_model=16,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_ffn_dim=16,
        num_queries=10,
    )
    config = MaskFormerConfig(
        backbone_config=swin(),
        decoder_config=decoder,
        fpn_feature_size=32,
        mask_feature_size=32,
        num_attention_heads=2,
        **LABELS,
    )
    MaskFormerImageProcessorPil(**PROPORTIONS).save_pretrained(folder)
    return saved(spread_heads(MaskFormerForInstanceSegmentation(config)), folder)


def save_detr_masks(folder: Path) -> Any:
    """DETR, with masks beside its boxes."""
    import torch
    from transformers import (
        DetrConfig,
        DetrForSegmentation,
        DetrImageProcessorPil,
        ResNetConfig,
    )

    torch.manual_seed(0)
    stages = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "embedding_size": 8}
    names = ["stage1", "stage2", "stage3", "stage4"]
    config = DetrConfig(
        use_timm_backbone=False,
        backbone_config=ResNetConfig(**stages, layer_type="basic", out_features=names),
        d_model=64,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=12,
        **LABELS,
    )
    DetrImageProcessorPil(**PROPORTIONS).save_pretrained(folder)
    return saved(spread_heads(DetrForSegmentation(config)), folder)


def spread_heads(model: Any) -> Any:
    """Larger weights, where classes and masks are made: else each place looks like the next."""
    import torch

    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "class_" in name or "mask_embedder" in name:
                weights.normal_(std=3)
            elif weights.ndim > 1 and "encoder" not in name:
                weights.normal_(std=0.5)
    return model


def centred(model: Any) -> Any:
    """Scores without a bias, so that no class is everywhere the likeliest."""
    import torch

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Conv2d) and module.out_channels == len(NAMES):
                module.weight.normal_(std=0.5)
                if module.bias is not None:
                    module.bias.zero_()
    return model


SEGMENTERS = {
    "segformer": save_segformer,
    "beit": save_beit,
    "upernet": save_upernet,
    "dpt": save_dpt,
    "mobilevit": save_mobilevit,
    "mobilenet": save_mobilenet,
    "mask2former": save_mask2former,
    "maskformer": save_maskformer,
    "detr": save_detr_masks,
}
