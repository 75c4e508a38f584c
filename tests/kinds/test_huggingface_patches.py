"""Which of an image model's vectors become the image's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.tiny_models import PROCESSORS, noise, png, predicted, rows_of, saved

TOLERANCE = 1e-6
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
