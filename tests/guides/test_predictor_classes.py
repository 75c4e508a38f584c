"""The classes that Ray's guides print run as they are, and give what they give when called."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from flows.testing import FinishedRun, RunSpec
from tasks.kinds.images import decode_image
from tests.guides.pictures import save_pictures
from tests.guides.user_code import guide_predictors
from tests.kinds import tiny_models

SPEC = str(Path(__file__).parents[2] / "deployments/specs/python-class.yaml")
CODE = f"environment.working_dir={Path(__file__).parent / 'user_code'}"
RANDOM = np.random.default_rng(0)


def run(run_spec: RunSpec, predictor: str, *overrides: str, **how: Any) -> FinishedRun:
    return run_spec(SPEC, CODE, f"model.class=guide_predictors:{predictor}", *overrides, **how)


def numbers(folder: Path) -> tuple[str, np.ndarray]:
    """Rows of a hundred numbers, as Ray's from_numpy makes them of a matrix."""
    data = RANDOM.standard_normal((50, 100))
    rows = pa.table({"data": pa.FixedSizeListArray.from_arrays(data.ravel(), 100)})
    pq.write_table(rows, folder / "data.parquet")
    return f"source={{kind: parquet, path: {folder / 'data.parquet'}}}", data


def save_clip(folder: Path) -> None:
    """CLIP for 16 x 16 pixels."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPProcessor

    torch.manual_seed(0)
    tower = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    words = {"vocab_size": 24, "max_position_embeddings": 16, "bos_token_id": 2, "eos_token_id": 3}
    picture = {"image_size": 16, "patch_size": 4}
    towers = {"text_config": {**tower, **words}, "vision_config": {**tower, **picture}}
    config = CLIPConfig(**towers, projection_dim=8)
    CLIPModel(config).save_pretrained(folder)
    size, crop = {"shortest_edge": 16}, {"height": 16, "width": 16}
    images = CLIPImageProcessorPil(size=size, crop_size=crop)
    CLIPProcessor(images, tiny_models.tokenizer(with_pairs=True)).save_pretrained(folder)


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[str, list[np.ndarray]]:
    """A source of a few photographs of one size, and their pixels."""
    pixels = [RANDOM.integers(0, 256, (20, 24, 3), dtype=np.uint8) for _ in range(9)]
    (tmp_path / "pictures").mkdir()
    for at, each in enumerate(pixels):
        Image.fromarray(each).save(tmp_path / "pictures" / f"{at}.png")
    return f"source={{kind: images, path: {tmp_path / 'pictures'}}}", pixels


@pytest.mark.prefect
def test_hugging_face_pipeline(
    run_spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import GenerationConfig

    tiny_models.save_gpt2(tmp_path / "gpt2")
    # The checkpoint says so, not the class: a pipeline draws tokens at random by itself.
    GenerationConfig(do_sample=False, eos_token_id=3).save_pretrained(tmp_path / "gpt2")
    monkeypatch.chdir(tmp_path)  # where the name that stands in the class is that folder's
    prompts = ["a b c", "d e", "f g h i", "j"]
    rows = [{"data": each} for each in prompts]
    done = run(run_spec, "HuggingFacePredictor", "model.init={}", rows=rows)
    predictor = guide_predictors.HuggingFacePredictor()
    expected = predictor({"data": np.asarray(prompts, object)})
    assert done.table["data"].to_pylist() == prompts
    assert done.table["output"].to_pylist() == list(expected["output"])


def tensorflow() -> ModuleType:
    """As far as the class uses it: Keras over torch, of which nothing can be trained.

    Torch lets nobody have the numbers of a result while it might be trained by; TensorFlow does.
    """
    keras = pytest.importorskip("keras", reason="needs Keras")
    keras.utils.set_random_seed(0)  # here Keras looks for TensorFlow, once: it is not to find this

    def sequential(layers: list[Any]) -> Any:
        model = keras.Sequential(layers)
        model.trainable = False
        return model

    names = {"Input": keras.Input, "layers": keras.layers, "utils": keras.utils}
    found = ModuleType("tensorflow")
    vars(found)["keras"] = SimpleNamespace(Sequential=sequential, **names)
    return found


@pytest.mark.prefect
@pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)  # Keras over torch
@pytest.mark.parametrize("predictor", ["TorchPredictor", "TFPredictor", "KerasPredictor"])
def test_torch_and_keras(
    run_spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, predictor: str
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    if predictor == "TFPredictor":
        monkeypatch.setitem(sys.modules, "tensorflow", tensorflow())
    source, data = numbers(tmp_path)
    done = run(run_spec, predictor, source, "model.init={}")
    expected = getattr(guide_predictors, predictor)()({"data": data})["output"]
    np.testing.assert_allclose(done.table["output"].to_pylist(), expected, atol=1e-6)
    np.testing.assert_array_equal(done.table["data"].to_pylist(), data)


@pytest.mark.prefect
def test_xgboost_over_pandas_batches(run_spec: RunSpec, tmp_path: Path) -> None:
    import xgboost

    frame = pd.DataFrame(RANDOM.standard_normal((80, 3)), columns=["a", "b", "c"])
    data = xgboost.DMatrix(frame, frame["a"] > 0)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 5)
    (tmp_path / "checkpoint").mkdir()
    booster.save_model(tmp_path / "checkpoint" / "model.ubj")
    frame.to_parquet(tmp_path / "rows.parquet")
    done = run(
        run_spec,
        "XGBoostPredictor",
        f"source={{kind: parquet, path: {tmp_path / 'rows.parquet'}}}",
        f"model.init={{checkpoint: {tmp_path / 'checkpoint'}}}",
        "model.batch_format=pandas",
    )
    expected = guide_predictors.XGBoostPredictor(str(tmp_path / "checkpoint"))(frame)
    np.testing.assert_allclose(done.table["predictions"], expected["predictions"], atol=1e-6)


@pytest.mark.prefect
def test_resnet_that_hands_the_pictures_back(
    run_spec: RunSpec, pictures: tuple[str, list[np.ndarray]]
) -> None:
    source, pixels = pictures
    step = "steps=[{kind: python, function: guide_predictors:transform_images}]"
    keep = "sink.keep_columns=[original_image]"
    done = run(run_spec, "ResnetModel", source, step, keep, "model.init={}", "sink.kind=parquet")
    batch = guide_predictors.transform_images({"image": np.stack(pixels)})
    expected = guide_predictors.ResnetModel()(batch)
    assert done.table["predicted_label"].to_pylist() == expected["predicted_label"]
    np.testing.assert_array_equal(done.table["original_image"].to_pylist(), np.stack(pixels))


def save_weights(folder: Path, pictures: list[np.ndarray]) -> None:
    """A ResNet-18 that tells pictures apart, in the file that torchvision takes for its own."""
    import torch
    from torchvision.models import ResNet18_Weights

    from tests.torchvision_shim.models import classifier

    folder.mkdir()
    file = ResNet18_Weights.IMAGENET1K_V1.url.rpartition("/")[2]
    torch.save(classifier("resnet18", 1000, pictures).state_dict(), folder / file)


@pytest.mark.prefect
@pytest.mark.usefixtures("torchvision")
def test_resnet_of_torchvision(
    run_spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    folder = save_pictures(tmp_path / "pictures", each=1, seed=0)  # of several sizes
    pixels = [decode_image(path.read_bytes()) for path in sorted(folder.rglob("*.jpg"))]
    save_weights(tmp_path / "checkpoints", pixels)
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    source = f"source={{kind: images, path: {folder}}}"
    step = "steps=[{kind: map, function: guide_resnet:preprocess_image}]"
    model = "model={kind: python, class: guide_resnet:ResnetModel}"
    done = run_spec(SPEC, CODE, source, step, model, "sink.keep_columns=[]")

    from tests.guides.user_code import guide_resnet

    rows = [guide_resnet.preprocess_image({"image": image}) for image in pixels]
    batch: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    batch["transformed_image"] = np.stack(batch["transformed_image"])
    expected = guide_resnet.ResnetModel()(batch)["predicted_label"]
    assert done.table.to_pydict() == {"predicted_label": expected}
    assert len(set(expected)) > 1


@pytest.mark.prefect
def test_clip_that_writes_into_its_batch(
    run_spec: RunSpec, tmp_path: Path, pictures: tuple[str, list[np.ndarray]]
) -> None:
    source, pixels = pictures
    save_clip(tmp_path / "clip")
    init = f"model.init={{model_id: {tmp_path / 'clip'}, device: cpu}}"
    label = "steps=[{kind: label_from_path, level: -2, column: class}]"
    done = run(run_spec, "EmbedImages", source, init, label, "sink.kind=parquet")
    predictor = guide_predictors.EmbedImages(str(tmp_path / "clip"), "cpu")
    expected = predictor({"image": np.stack(pixels)})["embedding"]
    assert set(done.table.column_names) == {"path", "class", "embedding"}
    np.testing.assert_allclose(done.table["embedding"].to_pylist(), expected, atol=1e-5)
