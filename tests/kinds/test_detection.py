"""Objects are those that the checkpoint's own processor and model find in each image alone."""

import io
import json
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.images import decode_image
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.whole_images import FILLED, SIZE, Preparation
from tasks.kinds.models.model import Placement
from tasks.kinds.models.vision.detection import Choice, detection_columns
from tasks.kinds.models.vision.pixels import PIXELS
from tests.kinds.tiny_detectors import DETECTORS, NAMES, save_detr
from tests.kinds.tiny_models import images, png, predicted, rows_of, save_vit, saved

TASK = "object-detection"
PIXEL, SCORE = 0.01, 1e-4
"""How far boxes and scores may be off: batches are summed in another order."""
PICTURES = [each for each in images(20) if 0.5 < each.shape[0] / each.shape[1] < 2]
PADDED = {"pad_size": {"height": 128, "width": 112}}


@pytest.fixture(scope="module", params=[*DETECTORS, "detr-padded"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp(request.param)
    name, _, padded = request.param.partition("-")
    DETECTORS[name](made, **(PADDED if padded else {}))
    return made


@cache
def loaded(folder: Path) -> tuple[Any, Any]:
    """Processor and model, as transformers loads them."""
    from transformers import AutoImageProcessor, AutoModelForObjectDetection

    model = AutoModelForObjectDetection.from_pretrained(folder).eval()
    return AutoImageProcessor.from_pretrained(folder), model


def directly(folder: Path, image: np.ndarray, threshold: float) -> list[dict[str, Any]]:
    """What transformers finds in one image, best first."""
    import torch

    processor, model = loaded(folder)
    with torch.inference_mode():
        outputs = model(**processor(image, return_tensors="pt"))
    (found,) = processor.post_process_object_detection(
        outputs, threshold=threshold, target_sizes=[image.shape[:2]]
    )
    objects = zip(*(found[name].tolist() for name in ("boxes", "labels", "scores")), strict=True)
    named = [{"box": b, "label": NAMES[i], "score": s} for b, i, s in objects]
    return sorted(named, key=lambda each: -each["score"])


def objects_of(rows: pa.Table) -> list[list[dict[str, Any]]]:
    """The same of published columns."""
    return [
        [
            {"box": box, "label": label, "score": score}
            for box, label, score in zip(row["boxes"], row["labels"], row["scores"], strict=True)
        ]
        for row in rows.to_pylist()
    ]


def assert_same(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    """The same objects, whatever the order of those whose scores are as good as equal."""
    assert len(mine) == len(theirs)
    left = [*theirs]
    for each in mine:
        near = [
            other
            for other in left
            if other["label"] == each["label"]
            and abs(other["score"] - each["score"]) < SCORE
            and np.abs(np.subtract(other["box"], each["box"])).max() < PIXEL
        ]
        assert near, each
        left.remove(near[0])


def test_objects_are_those_found_in_each_image_alone(folder: Path) -> None:
    rows = rows_of("image", [png(each) for each in PICTURES])
    found = objects_of(predicted(folder, TASK, rows, threshold=0.3))
    wanted = [directly(folder, each, 0.3) for each in PICTURES]
    assert sum(map(len, wanted)) > len(PICTURES)
    assert len({each["label"] for objects in wanted for each in objects}) > 1
    for mine, theirs in zip(found, wanted, strict=True):
        assert [each["score"] for each in mine] == sorted((e["score"] for e in mine), reverse=True)
        assert_same(mine, theirs)


def test_objects_do_not_depend_on_the_other_images(folder: Path) -> None:
    """Images of one shape, and of many, and each of them alone."""
    same = [np.flipud(PICTURES[0]).copy(), np.fliplr(PICTURES[0]).copy()]
    rows = rows_of("image", [png(each) for each in [*PICTURES, *same]])
    model = HuggingFaceModel.model_validate(
        {"task": TASK, "name_or_path": str(folder), "options": {"threshold": 0.3}}
    )
    prepared, predict = model.preprocessor()(rows), model.predictor(Placement())
    for at, mine in enumerate(objects_of(predict(prepared))):
        assert_same(mine, objects_of(predict(prepared.slice(at, 1)))[0])


def test_nothing_found_is_no_answer_of_a_model_without_numbers(tmp_path: Path) -> None:
    import torch

    model = save_detr(tmp_path)
    rows = rows_of("image", [png(each) for each in PICTURES[:2]])
    for layer in (model.class_labels_classifier, model.bbox_predictor.layers[-1]):
        with torch.no_grad():
            before, layer.bias[0] = layer.bias[0].clone(), torch.nan
        saved(model, tmp_path)
        with pytest.raises(ValueError, match="gave no numbers for this row"):
            predicted(tmp_path, TASK, rows, threshold=0.3)
        with torch.no_grad():
            layer.bias[0] = before
    saved(model, tmp_path)
    assert predicted(tmp_path, TASK, rows, threshold=0.3)["labels"].to_pylist()[0]


def test_images_travel_as_bytes_where_the_rest_can_be_done_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of("image", [png(each) for each in PICTURES[:4]])
    model = HuggingFaceModel(task=TASK, name_or_path=str(folder))
    sent = model.preprocessor()(rows)
    assert {each["dtype"] for each in sent[PIXELS].to_pylist()} == {"|u1"}
    found = objects_of(predicted(folder, TASK, rows, threshold=0.3))
    monkeypatch.setattr(Preparation, "can_be_parted", lambda *_: False)
    sent = model.preprocessor()(rows)
    assert {each["dtype"] for each in sent[PIXELS].to_pylist()} == {"<f4"}
    for mine, whole in zip(
        found, objects_of(predicted(folder, TASK, rows, threshold=0.3)), strict=True
    ):
        assert_same(mine, whole)


def test_one_number_may_be_the_mean_of_all_channels(tmp_path: Path) -> None:
    save_detr(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    one = {"image_mean": 0.5, "image_std": 0.25}
    file.write_text(json.dumps({**json.loads(file.read_text()), **one}))
    assert Preparation(
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).checkpoint
    ).sends_bytes


def test_an_images_padding_is_masked(tmp_path: Path) -> None:
    save_detr(tmp_path, **PADDED)
    model = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path))
    rows = model.preprocessor()(rows_of("image", [png(np.zeros((20, 30, 3), np.uint8))]))
    assert rows[PIXELS].to_pylist()[0]["shape"] == [3, 128, 112]
    assert rows[FILLED].to_pylist() == [[48, 72]]


def test_boxes_are_in_pixels_of_the_upright_image(tmp_path: Path) -> None:
    save_detr(tmp_path)
    upright = np.asarray(Image.fromarray(PICTURES[0]).resize((90, 60)))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    turned, out = Image.fromarray(np.rot90(upright)), io.BytesIO()
    turned.save(out, "PNG", exif=exif)
    found = objects_of(predicted(tmp_path, TASK, rows_of("image", [out.getvalue()]), threshold=0.3))
    assert_same(found[0], directly(tmp_path, upright, 0.3))


def test_options_choose_the_best_objects(tmp_path: Path) -> None:
    save_detr(tmp_path)
    rows = rows_of("image", [png(each) for each in PICTURES])
    every = objects_of(predicted(tmp_path, TASK, rows, threshold=0))
    usual = objects_of(predicted(tmp_path, TASK, rows))
    two = objects_of(predicted(tmp_path, TASK, rows, threshold=0, max_detections=2))
    assert {len(objects) for objects in every} == {12}
    assert usual == [[each for each in objects if each["score"] > 0.5] for objects in every]
    assert 0 < sum(map(len, usual)) < sum(map(len, every))
    assert two == [objects[:2] for objects in every]


def test_columns_keep_their_types_where_nothing_is_found(tmp_path: Path) -> None:
    save_detr(tmp_path)
    rows = rows_of("image", [png(each) for each in PICTURES[:2]])
    nothing = predicted(tmp_path, TASK, rows, threshold=1)
    assert nothing["boxes"].to_pylist() == [[], []]
    boxes, words, numbers = pa.list_(pa.list_(pa.float32())), pa.list_(pa.string()), pa.float32()
    for found in (nothing, predicted(tmp_path, TASK, rows.slice(0, 0))):
        types = [found.schema.field(name).type for name in ("boxes", "labels", "scores")]
        assert types == [boxes, words, pa.list_(numbers)]


def test_a_label_without_a_name_is_its_number() -> None:
    import torch

    found = {"boxes": torch.zeros(2, 4), "labels": torch.tensor([0, 7])}
    found["scores"] = torch.tensor([0.6, 0.9])
    choice = Choice.by(["cat"], None, None)
    assert detection_columns([choice.of(found)])["labels"].to_pylist() == [["7", "cat"]]


def test_classes_without_names_are_the_checkpoints_fault(tmp_path: Path) -> None:
    save_detr(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["id2label"] = {"0": "cat", "1": "dog", "4": "owl"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidSpec, match=r"model.name_or_path: .* no name for class 2: id2label"):
        predicted(tmp_path, TASK, rows_of("image", [png(PICTURES[0])]))


def test_a_broken_image_is_the_rows_fault(tmp_path: Path) -> None:
    save_detr(tmp_path)
    with pytest.raises(ValueError, match="not an image"):
        predicted(tmp_path, TASK, rows_of("image", [b"no image"]))


def test_images_as_they_were_read_are_in_memory_one_by_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a camera have a hundred times the pixels that a model gets."""
    read, at_once = list[weakref.ref[np.ndarray]](), list[int]()

    def decoded(data: bytes) -> np.ndarray:
        image = decode_image(data)
        read.append(weakref.ref(image))
        at_once.append(sum(each() is not None for each in read))
        return image

    monkeypatch.setattr("tasks.kinds.models.vision.pixels.decode_image", decoded)
    model = HuggingFaceModel(task=TASK, name_or_path=str(folder))
    found = model.preprocessor()(rows_of("image", [png(each) for each in PICTURES]))
    assert found[SIZE].to_pylist() == [[*each.shape[:2]] for each in PICTURES]
    assert (len(read), max(at_once)) == (len(PICTURES), 2)  # the next one and the one before it


def test_options_of_other_tasks_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"threshold.*is for object-detection"):
        HuggingFaceModel.model_validate(
            {"task": "image-classification", "name_or_path": "x/y", "options": {"threshold": 0.5}}
        )


def test_check_refuses_what_is_no_detector(tmp_path: Path) -> None:
    save_vit(tmp_path)
    with pytest.raises(InvalidSpec, match="whose name has ForObjectDetection"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()


@pytest.mark.parametrize(
    "backbone", [{"use_timm_backbone": True}, {"backbone_config": {"model_type": "timm_backbone"}}]
)
def test_check_says_that_a_backbone_needs_timm(tmp_path: Path, backbone: dict[str, Any]) -> None:
    save_detr(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **backbone}))
    with pytest.raises(InvalidSpec, match=r"pip install timm.*revision no_timm"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()
