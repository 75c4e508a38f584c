"""Similar images: pictures by a picture and by words, as CLIP called directly ranks them."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flows.search import search
from flows.testing import RunSpec
from tests.kinds.tiny_clip import save_clip
from tests.kinds.tiny_models import images, png

SPEC = "deployments/specs/clip-images.yaml"
TOLERANCE = 1e-3
"""Of cosines: pixels are those of CLIP's own processor to one grey level."""
WORDS = "c a b"


def cosines_of(clip: Path, pictures: list[Image.Image]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures' cosines with the last of them, and with the words."""
    import torch
    from transformers import CLIPModel, CLIPProcessor

    model, processor = CLIPModel.from_pretrained(clip), CLIPProcessor.from_pretrained(clip)
    inputs = processor(text=[WORDS], images=pictures, return_tensors="pt", padding=True)
    with torch.inference_mode():
        found = model(**inputs)
    vectors = found.image_embeds.numpy()
    return vectors @ vectors[-1], vectors @ found.text_embeds.numpy()[0]


@pytest.mark.prefect
def test_pictures_like_a_picture_and_like_words(run_spec: RunSpec, tmp_path: Path) -> None:
    clip, dogs = tmp_path / "clip", tmp_path / "dogs"
    save_clip(clip)
    files = [png(image) for image in images(13)]
    for number, content in enumerate(files[:-1]):
        file = dogs / ("beagle", "poodle")[number % 2] / f"{number:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    (tmp_path / "query.png").write_bytes(files[-1])
    given = f"source.path={dogs}", f"model.name_or_path={clip}"
    run_spec(SPEC, *given)

    pictures = [Image.open(io.BytesIO(content)).convert("RGB") for content in files]
    like_picture, like_words = cosines_of(clip, pictures)
    for query, wanted in ((str(tmp_path / "query.png"), like_picture), (WORDS, like_words)):
        found: dict[str, Any] = run_spec(SPEC, *given, flow=search, query=query, k=12).report
        scores = {Path(each["row"]["path"]).stem: each["score"] for each in found["matches"]}
        assert len(scores) == 12
        assert [each["row"]["class"] for each in found["matches"]] == [
            ("beagle", "poodle")[int(number) % 2] for number in scores
        ]
        for stem, score in scores.items():
            assert score == pytest.approx(wanted[int(stem)], abs=TOLERANCE)
        ranked = list(scores.values())
        assert ranked == sorted(ranked, reverse=True)
        assert wanted[int(next(iter(scores)))] >= wanted[:-1].max() - TOLERANCE
        assert ranked[0] - ranked[-1] > 20 * TOLERANCE, "the pictures differ in the model's eyes"

    itself = next(path for path in dogs.rglob("05.png"))
    found = run_spec(SPEC, *given, flow=search, query=str(itself), k=1).report
    assert found["matches"][0]["row"]["path"] == str(itself)
    assert found["matches"][0]["score"] == pytest.approx(1, abs=1e-5)
