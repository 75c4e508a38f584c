"""What makes no map of classes is refused before anything runs, with the way out."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tests.kinds.tiny_models import save_vit
from tests.kinds.tiny_segmenters import save_segformer

TASK = "image-segmentation"


def changed(folder: Path, file: str, **settings: Any) -> None:
    """A file of the folder, with other settings; None takes one away."""
    have = json.loads((folder / file).read_text()) | settings
    kept = {name: value for name, value in have.items() if value is not None}
    (folder / file).write_text(json.dumps(kept))


@pytest.mark.parametrize(
    "architecture",
    [
        "OneFormerForUniversalSegmentation",
        "EomtForUniversalSegmentation",
        "RfDetrForInstanceSegmentation",
        "ViTForImageClassification",
    ],
)
def test_other_architectures(tmp_path: Path, architecture: str) -> None:
    save_segformer(tmp_path)
    changed(tmp_path, "config.json", architectures=[architecture])
    wants = "needs a model whose name has ForSemanticSegmentation or Mask2FormerForUniversalSegment"
    with pytest.raises(InvalidSpec, match=f"is {architecture}; image-segmentation {wants}"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()


def test_a_config_that_names_no_architecture(tmp_path: Path) -> None:
    save_vit(tmp_path)
    changed(tmp_path, "config.json", architectures=None)
    said = "of type vit, which makes no class map here: use one .* segformer, upernet"
    with pytest.raises(InvalidSpec, match=said):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()
    save_segformer(tmp_path)
    changed(tmp_path, "config.json", architectures=None)
    HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()


def test_classes_without_names(tmp_path: Path) -> None:
    save_segformer(tmp_path)
    changed(tmp_path, "config.json", id2label={"0": "sky", "2": "road"}, label2id=None)
    with pytest.raises(InvalidSpec, match=r"name_or_path: .* no name for class 1: id2label"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()


@pytest.mark.parametrize("classes", [1, 65_537])
def test_as_many_classes_as_a_map_does_not_tell_apart(tmp_path: Path, classes: int) -> None:
    """Of one alone, as where it is told from what it is not, each pixel of each image would be."""
    save_segformer(tmp_path)
    names = {str(at): f"class {at}" for at in range(classes)}
    changed(tmp_path, "config.json", id2label=names, label2id=None)
    said = f"has {classes:,} names? of classes; a map can have 2 to 65,536 classes"
    with pytest.raises(InvalidSpec, match=said):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()


def test_a_processor_of_another_kind(tmp_path: Path) -> None:
    save_segformer(tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(InvalidSpec, match="has no image processor"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 64, "width": 64}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(InvalidSpec, match=r"has a ViTImageProcessor.*, which cannot turn the"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"top_k": 2}, {"max_length": 9}])
def test_options_of_other_tasks(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"not {TASK}, which takes none"):
        HuggingFaceModel.model_validate({"task": TASK, "name_or_path": "x/y", "options": options})
