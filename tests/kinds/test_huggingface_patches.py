"""Which of an image model's vectors become the image's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.errors import InvalidSpec
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.tiny_models import PROCESSORS, noise, png, predicted, rows_of, saved

TOLERANCE = 2e-5
SIZES: dict[str, Any] = {
    "image_size": 16,
    "patch_size": 4,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "initializer_range": 0.3,
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


PICTURES = noise(*[(16, 16)] * 5)
"""Of the models' own size: nothing is resized."""


def embedded(folder: Path, model: Any, **options: Any) -> np.ndarray:
    """What the kind makes of the pictures with a model that it loads."""
    from transformers import ViTImageProcessor

    ViTImageProcessor(**PROCESSORS["stretched"]).save_pretrained(folder)
    saved(model, folder)
    rows = rows_of("image", [png(each) for each in PICTURES])
    found = predicted(folder, "image-feature-extraction", rows, **options)
    return np.stack(found["embedding"].to_pylist())


def output_of(folder: Path, model: Any) -> Any:
    """What transformers makes of them."""
    import torch
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(folder)
    inputs = processor([*map(Image.fromarray, PICTURES)], return_tensors="pt")
    with torch.inference_mode():
        return model.eval()(**inputs)


@pytest.mark.parametrize("pooling", ["auto", "cls", "mean"])
def test_a_masked_autoencoder_sees_the_whole_image(tmp_path: Path, pooling: str) -> None:
    import torch
    from transformers import ViTConfig, ViTMAEConfig, ViTMAEForPreTraining, ViTModel

    torch.manual_seed(0)
    model = ViTMAEForPreTraining(ViTMAEConfig(**SIZES, decoder_num_hidden_layers=1))
    found = embedded(tmp_path, model, pooling=pooling)
    assert np.array_equal(embedded(tmp_path, model, pooling=pooling), found)
    plain = ViTModel(ViTConfig(**SIZES), add_pooling_layer=False)
    plain.load_state_dict(model.vit.state_dict())
    hidden = output_of(tmp_path, plain).last_hidden_state
    wanted = hidden.mean(1) if pooling == "mean" else hidden[:, 0]
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE)


SWIN = {"image_size": 16, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2}
MODELS: list[tuple[str, dict[str, Any], str]] = [
    ("ViT", SIZES, "class token"),
    ("DeiT", SIZES, "class token"),
    ("ViTMSN", SIZES, "class token"),
    ("Beit", SIZES, "own"),
    ("Dinov2", SIZES, "own"),
    ("Dinov2WithRegisters", SIZES, "own"),
    ("CLIPVision", SIZES, "own"),
    ("Swin", {**SWIN, "patch_size": 2}, "own"),
    ("SiglipVision", SIZES, "own"),
    ("SiglipVision", {**SIZES, "vision_use_head": False}, "mean"),
    ("Aimv2Vision", {**SIZES, "use_head": True}, "own"),
    ("Aimv2Vision", {**SIZES, "use_head": False}, "mean"),
    ("IJepa", SIZES, "mean"),
]


@pytest.mark.parametrize(("name", "sizes", "wanted"), MODELS)
def test_auto_takes_the_mean_where_no_vector_is_the_whole_images(
    tmp_path: Path, name: str, sizes: dict[str, Any], wanted: str
) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, f"{name}Model")(config)
    found = embedded(tmp_path, model)
    out = output_of(tmp_path, model)
    hidden = out.last_hidden_state
    made = {"own": out.get("pooler_output"), "class token": hidden[:, 0], "mean": hidden.mean(1)}
    np.testing.assert_allclose(found, made[wanted], atol=TOLERANCE)


def test_no_other_vector_is_taken_for_that_of_a_class_token(tmp_path: Path) -> None:
    from transformers import CvtConfig, CvtModel, ResNetConfig, ResNetModel, SwinConfig, SwinModel

    resnet = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1])
    cvt = CvtConfig(embed_dim=[16, 32, 32], num_heads=[1, 1, 1], depth=[1, 2, 3])
    swin = SwinConfig(**SWIN, patch_size=2)
    for model in (ResNetModel(resnet), CvtModel(cvt), SwinModel(swin)):
        folder = tmp_path / type(model).__name__
        problem = rf"options\.pooling: 'cls' needs a class token, which {folder.name} does not give"
        with pytest.raises(InvalidSpec, match=problem):
            embedded(folder, model, pooling="cls")
        assert len(embedded(folder, model, pooling="mean")) == len(PICTURES)
