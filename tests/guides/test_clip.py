"""Pictures and captions through CLIP's specs: the vectors of CLIP called directly, in one space."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from flows.testing import RunSpec
from tests.kinds.tiny_clip import save_clip
from tests.kinds.tiny_models import images, png

CLASSES = ["beagle", "malamute", "poodle"]
CAPTIONS = ["a b c", "d", "e f g h i j"]
TOLERANCE = 0.05
"""Of vectors of length 1: pixels are those of CLIP's own processor to one grey level."""
TEXT_TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few thousand random weights."""
    folder = tmp_path_factory.mktemp("clip")
    save_clip(folder)
    return folder


@pytest.fixture
def dogs(tmp_path: Path) -> Path:
    """Pictures in folders named by their class."""
    folder = tmp_path / "dogs"
    for number, image in enumerate(images(18)):
        file = folder / CLASSES[number // 6] / f"{number:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(image))
    return folder


class EmbedImages:
    """A predictor as people write theirs: a batch of arrays in, vectors beside them out."""

    def __init__(self, model_id: Path) -> None:
        from transformers import CLIPModel, CLIPProcessor

        self.processor = CLIPProcessor.from_pretrained(model_id)
        self.model = CLIPModel.from_pretrained(model_id)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        import torch

        pictures = [Image.fromarray(np.uint8(each)).convert("RGB") for each in batch["image"]]
        inputs = self.processor(images=pictures, return_tensors="pt", padding=True)
        with torch.inference_mode():
            found = self.model.get_image_features(**inputs)
        batch["embedding"] = getattr(found, "pooler_output", found).numpy()
        return batch


@pytest.mark.prefect
def test_pictures_and_captions(run_spec: RunSpec, clip: Path, dogs: Path) -> None:
    import torch
    from transformers import CLIPModel, CLIPProcessor

    (dogs / "poodle" / "broken.png").write_bytes(b"no picture")
    given = f"source.path={dogs}", f"model.name_or_path={clip}"
    done = run_spec(
        "deployments/specs/clip-images.yaml", *given, "errors.max_rejected_fraction=0.1"
    )
    assert [Path(row["source"]).name for row in done.set_aside] == ["broken.png"]
    assert len(done.rows) == 18
    pictures = [np.asarray(Image.open(row["path"])) for row in done.rows]
    wanted = EmbedImages(clip)({"image": pictures})["embedding"]
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    vectors = np.stack([row["embedding"] for row in done.rows])
    np.testing.assert_allclose(vectors, wanted, atol=TOLERANCE)
    assert (vectors * wanted).sum(1).min() > 0.999

    folders = {path.parent.name for path in Path(done.spec.sink.path).rglob("*.parquet")}
    assert folders == {f"class={name}" for name in CLASSES}
    beagles = pq.read_table(Path(done.spec.sink.path) / "class=beagle", partitioning=None)
    assert {Path(path).parent.name for path in beagles["path"].to_pylist()} == {"beagle"}

    paths = [row["path"] for row in done.rows]
    assert paths != sorted(paths)  # shuffled

    rows = [{"id": at, "caption": caption} for at, caption in enumerate(CAPTIONS)]
    said = run_spec("deployments/specs/clip-texts.yaml", given[1], rows=rows)
    assert [row["caption"] for row in said.rows] == CAPTIONS
    texts = np.stack([row["embedding"] for row in said.rows])
    model, processor = CLIPModel.from_pretrained(clip), CLIPProcessor.from_pretrained(clip)
    both = processor(text=CAPTIONS, images=pictures, return_tensors="pt", padding=True)
    with torch.inference_mode():
        found = model(**both)
        cosines = (found.logits_per_image / model.logit_scale.exp()).numpy()
    np.testing.assert_allclose(texts, found.text_embeds.numpy(), atol=TEXT_TOLERANCE)
    np.testing.assert_allclose(vectors @ texts.T, cosines, atol=TOLERANCE)


@pytest.mark.prefect
def test_pictures_by_words(run_spec: RunSpec, clip: Path, dogs: Path) -> None:
    from transformers import pipeline

    fields = f"source.path={dogs}", f"model.name_or_path={clip}"
    labels = [f"model.options.candidate_labels={CAPTIONS}", "model.options.top_k=3"]
    done = run_spec("deployments/specs/zero-shot.yaml", *fields, *labels)
    library: Any = pipeline("zero-shot-image-classification", str(clip), device="cpu")
    assert len(done.rows) == 18
    for row in done.rows:
        said = library(row["path"], candidate_labels=CAPTIONS)
        wanted = {each["label"]: each["score"] for each in said}
        ours = dict(zip(row["predicted_label"], row["predicted_score"], strict=True))
        assert ours == pytest.approx(wanted, abs=TOLERANCE)
