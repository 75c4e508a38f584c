"""The picture workloads: unique inputs, and a floor that says what our model says."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.clock import read_clocks
from tests.benchmarks.floor.pictures import predict_files
from tests.benchmarks.plain.pictures import model_of
from tests.benchmarks.script import Arguments
from tests.benchmarks.workloads import images, pictures


def test_no_two_pictures_are_alike() -> None:
    found = [pictures.picture(seed, number) for seed in (0, 1) for number in (-2, 0, 2, 4)]
    assert {each.shape for each in found} == {(pictures.HEIGHT, pictures.WIDTH, 3)}
    assert len({each.tobytes() for each in found}) == len(found)
    assert np.array_equal(found[1], pictures.picture(0, 0))


def test_the_floor_sees_what_torchvision_sees(tmp_path: Path) -> None:
    """The guide's way in plain torch: floats of each picture, resized, cut, normalised."""
    import torch
    from PIL import Image
    from transformers import AutoModelForImageClassification

    given = Arguments(tmp_path / "inputs", tmp_path / "weights", tmp_path / "output")
    for folder in (given.inputs, given.weights, given.output):
        folder.mkdir()
    images.make_weights(given.weights, 0)
    for number in range(12):
        pictures.save_picture(given.inputs, 0, number)
    files = sorted(given.inputs.iterdir())
    predict_files(files, model_of("images", given), given, "0.parquet")
    assert read_clocks(given.clocks)["rows"] == len(files)
    floor = pq.read_table(given.output)

    batch = torch.stack([torch.from_numpy(np.array(Image.open(file))) for file in files])
    floats = batch.permute(0, 3, 1, 2) / 255
    resized = torch.nn.functional.interpolate(
        floats, size=(256, 341), mode="bilinear", antialias=True
    )
    mean, std = (torch.tensor(pictures.PROCESSOR[f"image_{each}"]) for each in ("mean", "std"))
    seen = (resized[..., 16:240, 58:282] - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    model = AutoModelForImageClassification.from_pretrained(given.weights).eval()
    with torch.inference_mode():
        best = model(pixel_values=seen).logits.softmax(-1).max(-1)
    labels = [model.config.id2label[int(each)] for each in best.indices]
    theirs = pa.table({"predicted_label": labels, "predicted_score": best.values.numpy()})
    pictures.compare_labels(floor, theirs)
    with pytest.raises(AssertionError):
        pictures.compare_labels(floor, theirs.take([*range(1, 12), 0]))
