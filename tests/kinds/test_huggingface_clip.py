"""Texts and images of CLIP-like models get the vectors that transformers gives, in one space."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf import joint
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.tiny_clip import TEXT, save_aimv2, save_clip, save_half, save_siglip
from tests.kinds.tiny_models import images, png, predicted, rows_of, texts

TOLERANCE = 2e-5
GREY_LEVEL_TOLERANCE = 0.05
"""Of vectors of length 1: one grey level in some pixels moves them a little."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder for each tiny model."""
    base = tmp_path_factory.mktemp("clip")
    save_clip(base / "clip")
    save_siglip(base / "siglip")
    return {name: base / name for name in ("clip", "siglip")}


def embedded(folder: Path, task: str, column: str, values: list[Any], **options: Any) -> np.ndarray:
    found = predicted(folder, task, rows_of(column, values), **options)
    return np.stack(found["embedding"].to_pylist())


def own_vector(features: Any) -> np.ndarray:
    return getattr(features, "pooler_output", features)[0].numpy()


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_texts_get_the_models_own_vectors(folders: dict[str, Path], name: str) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    lines = texts(20, longest=40)
    found = embedded(folders[name], "feature-extraction", "text", lines)
    tokenizer = AutoTokenizer.from_pretrained(folders[name])
    model = AutoModel.from_pretrained(folders[name])
    padding: dict[str, Any] = {"padding": "max_length"} if name == "siglip" else {}
    for line, vector in zip(lines, found, strict=True):
        inputs = tokenizer(line, return_tensors="pt", truncation=True, **padding)
        with torch.inference_mode():
            wanted = own_vector(model.get_text_features(**inputs))
        np.testing.assert_allclose(vector, wanted, atol=TOLERANCE)
        assert inputs["input_ids"].shape[1] == TEXT["max_position_embeddings"] or name == "clip"


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_images_get_the_models_own_vectors_of_the_same_length(
    folders: dict[str, Path], name: str
) -> None:
    import torch
    from transformers import AutoImageProcessor, AutoModel

    pictures = images(8)
    encoded = [png(each) for each in pictures]
    found = embedded(folders[name], "image-feature-extraction", "image", encoded, normalize=True)
    processor = AutoImageProcessor.from_pretrained(folders[name])
    model = AutoModel.from_pretrained(folders[name])
    for picture, vector in zip(pictures, found, strict=True):
        inputs = processor(images=Image.fromarray(picture), return_tensors="pt")
        with torch.inference_mode():
            wanted = own_vector(model.get_image_features(**inputs))
        np.testing.assert_allclose(
            vector, wanted / np.linalg.norm(wanted), atol=GREY_LEVEL_TOLERANCE
        )
    lines = embedded(folders[name], "feature-extraction", "text", ["a b"], normalize=True)
    assert lines.shape[1] == found.shape[1]
    np.testing.assert_allclose(np.linalg.norm([*lines, *found], axis=1), 1, atol=1e-6)


def test_a_text_does_not_depend_on_the_rows_beside_it(folders: dict[str, Path]) -> None:
    for folder in folders.values():
        rows = rows_of("text", texts(12, longest=40))
        together = predicted(folder, "feature-extraction", rows)["embedding"].to_pylist()
        alone = predicted(folder, "feature-extraction", rows, 1)["embedding"].to_pylist()
        np.testing.assert_allclose(together, alone, atol=TOLERANCE)


def test_what_sentence_transformers_says_of_the_shared_space_is_no_other_output(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    folder, lines = Path(shutil.copytree(folders["clip"], tmp_path / "clip")), texts(3, longest=9)
    modules = [{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""}]
    (folder / "modules.json").write_text(json.dumps(modules))
    taken = {"method": "get_text_features", "method_output_name": "pooler_output"}
    settings = {"modality_config": {"text": taken}, "module_output_name": "sentence_embedding"}
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    HuggingFaceModel(task="feature-extraction", name_or_path=str(folder)).check()
    found = embedded(folder, "feature-extraction", "text", lines)
    wanted = embedded(folders["clip"], "feature-extraction", "text", lines)
    np.testing.assert_array_equal(found, wanted)


def test_a_text_does_not_depend_on_others_where_padding_turns_a_mask_on(tmp_path: Path) -> None:
    """Without any, transformers leaves AIMv2's mask out, and its tokens see those after them."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    save_aimv2(tmp_path)
    lines = texts(12, longest=40)
    found = embedded(tmp_path, "feature-extraction", "text", lines)
    tokenizer, model = (each.from_pretrained(tmp_path) for each in (AutoTokenizer, AutoModel))
    for line, vector in zip(lines, found, strict=True):
        with torch.inference_mode():
            inputs = tokenizer(line, truncation=True, max_length=24, return_tensors="pt")
            wanted = own_vector(model.eval().get_text_features(**inputs))
        np.testing.assert_allclose(vector, wanted, atol=TOLERANCE)


def test_several_vectors_of_a_text_are_no_embedding() -> None:
    """As FLAVA gives them, of each token."""
    import torch

    model = SimpleNamespace(get_text_features=lambda **_: torch.ones(2, 3, 4), name_or_path="x")
    forward = joint.features_forward(model, "text", HuggingFaceOptions())
    with pytest.raises(InvalidSpec, match=r"name_or_path: 'x' is of .* vector for each part of a"):
        forward({})


@pytest.mark.parametrize("task", ["feature-extraction", "image-feature-extraction"])
def test_another_pooling_is_refused_before_anything_starts(
    folders: dict[str, Path], task: str
) -> None:
    given = {"task": task, "name_or_path": str(folders["clip"]), "options": {"pooling": "mean"}}
    with pytest.raises(InvalidSpec, match=r"options\.pooling: 'mean' would leave the vector space"):
        HuggingFaceModel.model_validate(given).check()


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("half", ["Text", "Vision"])
def test_half_a_model_embeds_as_the_whole_one(
    folders: dict[str, Path], tmp_path: Path, half: str, normalize: bool
) -> None:
    save_half(tmp_path, folders["clip"], half)
    given: dict[str, tuple[str, str, list[Any]]] = {
        "Text": ("feature-extraction", "text", texts(12, longest=20)),
        "Vision": ("image-feature-extraction", "image", [png(each) for each in images(6)]),
    }
    found, whole = (
        embedded(folder, *given[half], normalize=normalize)
        for folder in (tmp_path, folders["clip"])
    )
    np.testing.assert_allclose(found, whole, atol=1e-6)
    with pytest.raises(InvalidSpec, match=r"options\.pooling: 'mean' would leave the vector space"):
        embedded(tmp_path, *given[half], pooling="mean")


@pytest.mark.parametrize(
    ("task", "architecture"),
    [
        ("feature-extraction", "CLIPVisionModelWithProjection"),
        ("image-feature-extraction", "CLIPTextModelWithProjection"),
        ("image-feature-extraction", "Blip2VisionModelWithProjection"),
    ],
)
def test_another_half_is_refused(tmp_path: Path, task: Any, architecture: str) -> None:
    save_clip(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = [architecture]
    (tmp_path / "config.json").write_text(json.dumps(config))
    message = f"is {architecture}; of the halves of models, {task} takes only CLIP"
    with pytest.raises(InvalidSpec, match=rf"^model\.name_or_path: .* {message}"):
        HuggingFaceModel(task=task, name_or_path=str(tmp_path)).check()
