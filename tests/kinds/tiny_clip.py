"""CLIP, SigLIP and their like of a few thousand random weights, saved as people save theirs."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import PROCESSORS, VOCABULARY, saved, tokenizer

TOWER = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "initializer_range": 0.3,
}
TEXT = {**TOWER, "vocab_size": len(VOCABULARY), "max_position_embeddings": 24}
IMAGE = {**TOWER, "image_size": 16, "patch_size": 4}
SPECIAL = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}


def save_clip(folder: Path) -> Any:
    """One that reads a text up to its end."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor

    torch.manual_seed(0)
    config = CLIPConfig(text_config={**TEXT, **SPECIAL}, vision_config=IMAGE, projection_dim=16)
    reads = tokenizer(with_pairs=True)
    reads.model_input_names = ["input_ids", "attention_mask"]
    reads.model_max_length = TEXT["max_position_embeddings"]
    CLIPProcessor(CLIPImageProcessor(**PROCESSORS["cropped"]), reads).save_pretrained(folder)
    return saved(CLIPModel(config), folder)


def save_half(folder: Path, clip: Path, half: str) -> Any:
    """The `Text` or `Vision` of a CLIP alone, with what leads into the space of both."""
    import transformers

    transformers.AutoProcessor.from_pretrained(clip).save_pretrained(folder)
    whole = transformers.AutoConfig.from_pretrained(clip)
    config = getattr(whole, f"{half.lower()}_config")
    config.projection_dim = whole.projection_dim
    made = getattr(transformers, f"CLIP{half}ModelWithProjection")
    return saved(made.from_pretrained(clip, config=config), folder)


def save_siglip(folder: Path) -> Any:
    """One that reads the padding too, and gives no mask."""
    import torch
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel, SiglipProcessor

    torch.manual_seed(0)
    config = SiglipConfig(text_config={**TEXT, **SPECIAL}, vision_config=IMAGE)
    reads = tokenizer(with_pairs=True)
    reads.model_input_names = ["input_ids"]
    reads.model_max_length = TEXT["max_position_embeddings"]
    SiglipProcessor(SiglipImageProcessor(**PROCESSORS["bicubic"]), reads).save_pretrained(folder)
    return saved(SiglipModel(config), folder)


def save_aimv2(folder: Path) -> Any:
    """One that sees what comes after a token where nothing is padded, and else does not."""
    import torch
    from transformers import Aimv2Config, Aimv2Model

    torch.manual_seed(0)
    config = Aimv2Config(text_config={**TEXT, **SPECIAL}, vision_config=IMAGE, projection_dim=16)
    reads = tokenizer(with_pairs=True)
    reads.model_input_names = ["input_ids", "attention_mask"]
    reads.model_max_length = TEXT["max_position_embeddings"]
    reads.save_pretrained(folder)
    return saved(Aimv2Model(config), folder)


def save_align(folder: Path) -> Any:
    """One that divides nearness by a temperature, and looks with convolutions."""
    import torch
    from transformers import AlignConfig, AlignModel, ViTImageProcessor

    torch.manual_seed(0)
    layers = {
        "kernel_sizes": [3, 3],
        "width_coefficient": 1.0,
        "in_channels": [32, 16],
        "out_channels": [16, 16],
        "strides": [1, 2],
        "num_block_repeats": [1, 1],
        "expand_ratios": [1, 2],
    }
    vision = {**layers, "image_size": 16, "hidden_dim": 16, "depthwise_padding": []}
    config = AlignConfig(text_config={**TEXT, **SPECIAL}, vision_config=vision, projection_dim=16)
    tokenizer(with_pairs=True).save_pretrained(folder)
    ViTImageProcessor(**PROCESSORS["stretched"]).save_pretrained(folder)
    return saved(AlignModel(config), folder)
