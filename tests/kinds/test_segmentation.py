"""Maps are those that the checkpoint's own processor and model make of each image alone."""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.segmentation import auto_class
from tasks.kinds.models.model import Placement
from tasks.kinds.models.vision import class_maps
from tests.kinds.maps import maps_of, share_that_differs
from tests.kinds.tiny_models import images, png, predicted, rows_of, saved
from tests.kinds.tiny_segmenters import (
    NAMES,
    SEGMENTERS,
    SQUARE,
    save_segformer,
)

TASK = "image-segmentation"
ADDED = ("segmentation", "labels", "label_ids", "shares")
PICTURES = [each for each in images(20) if 0.5 < each.shape[0] / each.shape[1] < 2]


@pytest.fixture(scope="module", params=SEGMENTERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp(name)
    SEGMENTERS[name](made)
    return made


def model_of(folder: Path) -> HuggingFaceModel:
    return HuggingFaceModel(task=TASK, name_or_path=str(folder))


@cache
def loaded(folder: Path) -> tuple[Any, Any]:
    """Processor and model, as transformers loads them; the first is to cut nothing off."""
    import transformers

    processor = transformers.AutoImageProcessor.from_pretrained(folder, do_center_crop=False)
    loads = getattr(transformers, auto_class(model_of(folder).checkpoint))
    return processor, loads.from_pretrained(folder).eval()


def directly(folder: Path, image: np.ndarray) -> np.ndarray:
    """What transformers makes of one image."""
    import torch

    processor, model = loaded(folder)
    with torch.inference_mode():
        outputs = model(**processor(image, return_tensors="pt"))
        (found,) = processor.post_process_semantic_segmentation(
            outputs, target_sizes=[image.shape[:2]]
        )
    return np.asarray(found.numpy())


def check_columns(rows: pa.Table) -> None:
    """The small columns say what is on the maps."""
    for row, classes in zip(rows.to_pylist(), maps_of(rows), strict=True):
        pixels = {at: int((classes == at).sum()) for at in NAMES if (classes == at).any()}
        assert sorted(row["label_ids"]) == sorted(pixels)
        assert row["labels"] == [NAMES[at] for at in row["label_ids"]]
        assert row["shares"] == sorted(row["shares"], reverse=True)
        wanted = [pixels[at] / classes.size for at in row["label_ids"]]
        assert row["shares"] == pytest.approx(wanted, abs=1e-6)


def test_maps_are_those_made_of_each_image_alone(folder: Path) -> None:
    found = predicted(folder, TASK, rows_of("image", [png(each) for each in PICTURES]))
    wanted = [directly(folder, each) for each in PICTURES]
    assert len({int(at) for each in wanted for at in np.unique(each)}) > 2
    assert share_that_differs(maps_of(found), wanted) == 0
    assert {each.dtype for each in maps_of(found)} == {np.dtype(np.uint8)}
    check_columns(found)


def test_maps_do_not_depend_on_the_other_images(folder: Path) -> None:
    """Images of one shape, and of many, in batches of several and each of them alone."""
    same = [np.flipud(PICTURES[0]).copy(), np.fliplr(PICTURES[0]).copy(), PICTURES[0]]
    rows = rows_of("image", [png(each) for each in [*PICTURES, *same]])
    together = predicted(folder, TASK, rows, batch_size=4)
    alone = [predicted(folder, TASK, rows.slice(at, 1)) for at in range(len(rows))]
    # Sums of batches are added up in another order.
    assert share_that_differs(maps_of(together), maps_of(pa.concat_tables(alone))) <= 1e-4


@pytest.mark.parametrize("name", ["segformer", "mask2former", "detr"], indirect=True)
def test_maps_are_those_of_transformers_own_pipeline(folder: Path) -> None:
    from transformers import pipeline

    library: Any = pipeline(TASK, str(folder), device="cpu")
    found = predicted(folder, TASK, rows_of("image", [png(each) for each in PICTURES]))
    for row, classes, picture in zip(found.to_pylist(), maps_of(found), PICTURES, strict=True):
        masks = library(Image.fromarray(picture), subtask="semantic")
        assert {each["label"] for each in masks} == {*row["labels"]}
        for each in masks:
            mine = classes == [*NAMES.values()].index(each["label"])
            assert (mine == (np.asarray(each["mask"]) > 0)).all()


def test_a_map_is_of_the_whole_image_though_its_processor_would_cut_borders_off(
    tmp_path: Path,
) -> None:
    """Transformers' pipeline stretches the map of what is left over all of the image."""
    SEGMENTERS["mobilenet"](tmp_path)
    settings = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert settings["do_center_crop"] is True
    wide = np.asarray(Image.fromarray(PICTURES[0]).resize((200, 60)))
    (classes,) = maps_of(predicted(tmp_path, TASK, rows_of("image", [png(wide)])))
    assert (classes == directly(tmp_path, wide)).all()
    with_border = np.array(wide)
    with_border[:, :40] = 255 - with_border[:, :40]
    (other,) = maps_of(predicted(tmp_path, TASK, rows_of("image", [png(with_border)])))
    assert (other[:, :40] != classes[:, :40]).any()


def test_a_map_is_of_the_upright_image(tmp_path: Path) -> None:
    save_segformer(tmp_path)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    out = io.BytesIO()
    Image.fromarray(np.rot90(PICTURES[0])).save(out, "PNG", exif=exif)
    found = predicted(tmp_path, TASK, rows_of("image", [out.getvalue(), png(PICTURES[0])]))
    turned, upright = maps_of(found)
    assert turned.shape == PICTURES[0].shape[:2]
    assert (turned == upright).all()


def test_more_classes_than_a_byte_has_take_two(tmp_path: Path) -> None:
    many = {at: f"class {at}" for at in range(300)}
    model = save_segformer(tmp_path, id2label=many, label2id={n: at for at, n in many.items()})
    found = predicted(tmp_path, TASK, rows_of("image", [png(each) for each in PICTURES]))
    wanted = [directly(tmp_path, each) for each in PICTURES]
    assert {each.dtype for each in maps_of(found)} == {np.dtype(np.uint16)}
    assert max(int(each.max()) for each in wanted) > 255
    assert share_that_differs(maps_of(found), wanted) == 0
    assert model.config.num_labels == 300


def test_large_images_take_no_more_room_than_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    save_segformer(tmp_path)
    large = np.asarray(Image.fromarray(PICTURES[1]).resize((700, 500)))
    whole = maps_of(predicted(tmp_path, TASK, rows_of("image", [png(large)])))
    sizes, stretch = list[int](), torch.nn.functional.interpolate

    def noted(scores: Any, **how: Any) -> Any:
        made = stretch(scores, **how)
        sizes.append(made.nbytes if tuple(made.shape[2:]) == (500, 700) else 0)
        return made

    monkeypatch.setattr(torch.nn.functional, "interpolate", noted)
    monkeypatch.setattr(class_maps, "ROOM_ON_CPU", 2 * 4 * 500 * 700)
    parts = maps_of(predicted(tmp_path, TASK, rows_of("image", [png(large)])))
    assert max(sizes) == 2 * 4 * 500 * 700
    assert len([size for size in sizes if size]) > 1
    assert (parts[0] == whole[0]).all()


def test_what_is_no_number_is_no_map(tmp_path: Path) -> None:
    import torch

    model = save_segformer(tmp_path)
    with torch.no_grad():
        model.decode_head.classifier.bias[1] = torch.nan
    saved(model, tmp_path)
    with pytest.raises(ValueError, match="gave no numbers for this row"):
        predicted(tmp_path, TASK, rows_of("image", [png(PICTURES[0])]))


def test_columns_keep_their_types_where_there_are_no_rows(tmp_path: Path) -> None:
    save_segformer(tmp_path)
    rows = rows_of("image", [png(each) for each in PICTURES[:2]])
    some, none = predicted(tmp_path, TASK, rows), predicted(tmp_path, TASK, rows[:0])
    types = [pa.binary(), *map(pa.list_, (pa.string(), pa.int32(), pa.float32()))]
    for found in (some, none):
        assert [found.schema.field(each).type for each in ADDED] == types


def test_a_broken_image_is_the_rows_fault(tmp_path: Path) -> None:
    save_segformer(tmp_path)
    with pytest.raises(ValueError, match="not an image"):
        predicted(tmp_path, TASK, rows_of("image", [b"no image"]))


def test_bytes_travel_to_the_model(folder: Path) -> None:
    """A quarter of what the processor's own floats would be."""
    sent = model_of(folder).preprocessor()(rows_of("image", [png(each) for each in PICTURES[:3]]))
    assert {each["dtype"] for each in sent["__pixels"].to_pylist()} == {"|u1"}


def test_a_gpu_calculates_in_float32_where_nothing_else_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16 scores side by side are often the same, and the first class would have both."""
    from tasks.kinds.models.hf.checkpoint import Checkpoint

    class Loaded(Exception):
        pass

    def loads(_: Checkpoint, name: str, placement: Placement) -> Any:
        raise Loaded(name, placement.dtype)

    save_segformer(tmp_path, SQUARE)
    monkeypatch.setattr(Checkpoint, "model", loads)
    for asked, used in (("auto", "float32"), ("bfloat16", "bfloat16")):
        with pytest.raises(Loaded, match=f"'AutoModelForSemanticSegmentation', '{used}'"):
            model_of(tmp_path).predictor(Placement("cuda", dtype=asked))  # type: ignore[arg-type]
