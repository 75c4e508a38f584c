"""The demo's data: complete, honest, and made once."""

from pathlib import Path

import pyarrow as pa
import pytest

from flows.demo_data import DemoData, prepare_digits
from flows.demo_model import Training
from tasks.kinds.images import decode_image
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW

SHORT = Training(num_epochs=2, num_images=200)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> DemoData:
    """All the images, and a model that has hardly seen any."""
    return prepare_digits(tmp_path_factory.mktemp("short"), SHORT)


def test_images_lie_in_folders_by_class_and_no_digit_is_in_both_splits(short: DemoData) -> None:
    training = {path.name for path in (short.folder / "training").glob("*/*.png")}
    held_out = {path.name for path in short.held_out.glob("*/[0-9]*.png")}
    assert (len(training), len(held_out)) == (short.num_training, short.num_held_out) == (1000, 797)
    assert not training & held_out
    assert {path.name for path in short.held_out.iterdir()} == {str(digit) for digit in range(10)}


def test_five_files_cannot_be_decoded_and_they_are_few_enough_for_the_budget(
    short: DemoData,
) -> None:
    broken = list(short.held_out.glob("*/broken*"))
    assert len(broken) == short.num_broken == 5
    assert short.num_broken / (short.num_held_out + short.num_broken) < 0.01
    for path in broken:
        with pytest.raises(Exception, match=r".+"):
            decode_image(path.read_bytes())


def test_a_second_call_uses_a_complete_folder_again(short: DemoData) -> None:
    weights = short.model / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert prepare_digits(short.folder, SHORT) == short
    assert weights.stat().st_mtime_ns == written
    next(iter(short.held_out.glob("7/0*.png"))).unlink()
    made_anew = prepare_digits(short.folder, SHORT)
    assert made_anew.held_out_accuracy == short.held_out_accuracy
    assert weights.stat().st_mtime_ns != written


def test_the_demo_model_finds_93_percent_of_what_it_never_saw(tmp_path: Path) -> None:
    data = prepare_digits(tmp_path)
    files = sorted(data.held_out.glob("*/[0-9]*.png"))
    content = [path.read_bytes() for path in files]
    rows = pa.table({ROW: pa.array(range(len(files)), pa.int64()), "image": content})
    model = HuggingFaceModel(task="image-classification", name_or_path=str(data.model))
    model.check()
    found = model.predictor(Placement())(model.preprocessor()(rows))["predicted_label"].to_pylist()
    right = sum(label == path.parent.name for label, path in zip(found, files, strict=True))
    assert right / len(files) == pytest.approx(data.held_out_accuracy)
    assert data.held_out_accuracy >= 0.93
