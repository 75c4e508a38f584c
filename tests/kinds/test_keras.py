"""The keras kind: as the model itself, whatever it is built of; here on torch."""

import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import KerasModel
from tasks.kinds.models.model import Placement
from tasks.kinds.models.tensors import keras_backend, keras_file
from tasks.kinds.models.tensors.inputs import array_of
from tasks.kinds.tensors import tensor_array
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame
from tests.kinds.digits import (
    digits,
    logits,
    predicted,
    rows_of,
    softmax,
    unseen,
    values,
    weights,
)
from tests.kinds.one_backend import NUMBERS

CODE = "tests.kinds.keras_code"


@pytest.fixture(scope="module")
def keras() -> Any:
    return keras_backend.keras_with(keras_backend.chosen("auto"))


def save(model: Any, file: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Keras on NumPy 2
        model.save(file)
    return file


def digits_model(keras: Any, file: Path, activation: str | None = None, **shape: Any) -> Path:
    """The trained weights as one layer."""
    dense = keras.layers.Dense(10, activation=activation)
    model = keras.Sequential([keras.Input(**(shape or {"shape": (64,)})), dense])
    dense.set_weights(weights())
    return save(model, file)


def model_of(path: Path, **fields: Any) -> KerasModel:
    given = {"columns": ["pixels"]} if "inputs" not in fields else {}
    return KerasModel.model_validate({"path": str(path), **given, **fields})


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("shape", [{"shape": (64,)}, {"batch_shape": (8, 64)}])
def test_what_the_model_gives(
    tmp_path: Path, keras: Any, shape: dict[str, Any], batch_size: int | None
) -> None:
    """Also where it was built for eight rows at a time only, and there are 297."""
    file = digits_model(keras, tmp_path / "digits.keras", **shape)
    made = predicted(model_of(file), rows_of(pixels=unseen()), batch_size=batch_size)
    assert made["prediction"].type == pa.list_(pa.float32(), 10)
    np.testing.assert_allclose(values(made), logits(), atol=1e-5)
    direct = keras.saving.load_model(file)(unseen()[:8], training=False)
    np.testing.assert_allclose(values(made)[:8], direct.detach().numpy(), atol=1e-6)


def test_a_model_whose_last_layer_is_softmax(tmp_path: Path, keras: Any) -> None:
    file = digits_model(keras, tmp_path / "digits.keras", "softmax")
    model = model_of(file, labels=[*"abcdefghij"], activation="none", top_k=3)
    made = predicted(model, rows_of(pixels=unseen()))
    scores = softmax(logits())
    best = np.argsort(-scores, axis=1)[:, :3]
    assert made["predicted_label"].to_pylist() == [["abcdefghij"[at] for at in row] for row in best]
    np.testing.assert_allclose(
        values(made, "predicted_score"), np.take_along_axis(scores, best, 1), atol=1e-6
    )
    assert (best[:, 0] == digits()[1][-len(best) :]).mean() > 0.88


def test_one_probability_names_both_labels(tmp_path: Path, keras: Any) -> None:
    dense = keras.layers.Dense(1)
    model = keras.Sequential([keras.Input((2,)), dense])
    dense.set_weights([np.array([[1.0], [0.0]]), np.zeros(1)])
    fields = {"columns": ["a", "b"], "labels": ["no", "yes"], "activation": "sigmoid"}
    made = predicted(
        model_of(save(model, tmp_path / "m.keras"), **fields), rows_of(a=[3.0, -3.0], b=[0, 0])
    )
    assert made["predicted_label"].to_pylist() == ["yes", "no"]
    np.testing.assert_allclose(values(made, "predicted_score"), 1 / (1 + np.exp(-3)), atol=1e-6)


def test_softmax_is_asked_of_logits_only(tmp_path: Path, keras: Any) -> None:
    one = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    file = save(one, tmp_path / "one.keras")
    for labels in (["no", "yes"], ["yes"]):
        model = model_of(file, columns=["a"], labels=labels)
        with pytest.raises(InvalidSpec, match=r"model.activation: 'softmax' turns a single s"):
            predicted(model, rows_of(a=[3.0]))
    done = digits_model(keras, tmp_path / "digits.keras", activation="softmax")
    for activation in ("softmax", "sigmoid"):
        model = model_of(done, labels=10, activation=activation)
        with pytest.raises(InvalidSpec, match=r"is already applied, .* add up to 1, .*: set none"):
            predicted(model, rows_of(pixels=unseen()))


@pytest.mark.parametrize("inputs_as", ["list", "dict"])
@pytest.mark.parametrize("outputs_as", ["list", "dict"])
def test_several_inputs_and_outputs(
    tmp_path: Path, keras: Any, inputs_as: str, outputs_as: str
) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((3,), name="x")
    category = keras.Input((1,), name="category", dtype="int32")
    table = keras.layers.Embedding(5, 3)
    total = keras.layers.Add(name="total")([x, keras.layers.Flatten()(table(category))])
    double = keras.layers.Rescaling(2.0, name="double")(total)
    model = keras.Model(
        [x, category] if inputs_as == "list" else {"x": x, "category": category},
        [total, double] if outputs_as == "list" else {"total": total, "double": double},
    )
    file = save(model, tmp_path / "several.keras")
    rows = rows_of(a=[1.0, 2.0], b=[0, 1], c=[True, False], kind=[4, 0])
    given = model_of(file, inputs={"category": "kind", "x": ["a", "b", "c"]})
    made = predicted(given, rows)
    embedding = table.weights[0].value.detach().numpy()
    expected = np.asarray([[1, 0, 1], [2, 1, 0]]) + embedding[[4, 0]]
    np.testing.assert_allclose(values(made, "total"), expected, atol=1e-6)
    np.testing.assert_allclose(values(made, "double"), 2 * expected, atol=1e-6)


def test_outputs_of_one_layer_are_told_apart_by_number(tmp_path: Path, keras: Any) -> None:
    steps = keras.Input((2, 2))
    model = keras.Model(steps, keras.layers.LSTM(3, return_state=True)(steps))
    file = save(model, tmp_path / "states.keras")
    given = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    made = predicted(model_of(file, columns=["steps"]), rows_of(steps=given.tolist()))
    for at, each in enumerate(model(given, training=False)):
        np.testing.assert_allclose(values(made, f"output_{at}"), each.detach().numpy(), atol=1e-6)


def test_images_and_bad_rows(tmp_path: Path, keras: Any) -> None:
    layers = [keras.Input((4, 5, 3)), keras.layers.GlobalAveragePooling2D()]
    file = save(keras.Sequential(layers), tmp_path / "mean.keras")
    images: list[Any] = [np.full((4, 5, 3), each, np.uint8) for each in (0, 9, 128, 255)]
    images[1] = np.zeros((5, 4, 3), np.uint8)
    rows = pa.table({ROW: pa.array([7, 8, 9, 10]), "pixels": tensor_array(images)})
    outcome = call_with_blame(model_of(file).predictor(Placement()), rows)
    assert {row: str(error) for row, error in outcome.failed.items()} == {
        8: "column 'pixels' has values of shape (5, 4, 3), but the model takes 4 x 5 x 3"
    }
    assert outcome.rows is not None
    np.testing.assert_allclose(values(outcome.rows), [[0] * 3, [128] * 3, [255] * 3], rtol=1e-6)


def test_layers_of_the_users(tmp_path: Path, keras: Any) -> None:
    from tests.kinds.keras_code import Doubled, Subclassed

    file = save(keras.Sequential([keras.Input((2,)), Doubled()]), tmp_path / "doubled.keras")
    rows = rows_of(a=[1.0, 2.0], b=[0.5, 0.25])
    model = model_of(file, columns=["a", "b"], custom_objects=[f"{CODE}:Doubled"])
    assert values(predicted(model, rows)).tolist() == [[2, 1], [4, 0.5]]
    assert model.code_digest()
    bare = model_of(file, columns=["a", "b"])
    assert bare.code_digest() == ""
    with pytest.raises(
        InvalidSpec, match=r"class 'Doubled'. List your own layers in model.custom_o"
    ):
        predicted(bare, rows)
    with pytest.raises(InvalidSpec, match=r"model.custom_objects: .* is not there"):
        model_of(file, custom_objects=[f"{CODE}:Tripled"]).check()

    subclassed = Subclassed()
    expected = subclassed(np.asarray([[1, 0.5], [2, 0.25]], np.float32)).detach().numpy()
    file = save(subclassed, tmp_path / "subclassed.keras")
    model = model_of(file, columns=["a", "b"], custom_objects=[f"{CODE}:Subclassed"])
    np.testing.assert_allclose(values(predicted(model, rows)), expected, atol=1e-6)


def test_code_in_a_file_is_not_run(tmp_path: Path, keras: Any) -> None:
    file = tmp_path / "lambda.keras"
    layers = [keras.Input((2,)), keras.layers.Lambda(lambda x: x * 2)]
    save(keras.Sequential(layers), file)
    with pytest.raises(InvalidSpec, match="has a Lambda layer, whose Python code is never run"):
        model_of(file, columns=["a", "b"]).check()
    with pytest.raises(InvalidSpec, match=r"cannot be loaded by Keras .*Lambda"):
        model_of(file, columns=["a", "b"]).predictor(Placement())


def test_what_is_refused(tmp_path: Path, keras: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import zipfile

    file = digits_model(keras, tmp_path / "digits.keras")
    rows = rows_of(pixels=unseen())
    with pytest.raises(InvalidSpec, match=r"resources.dtype: 'float16' is not possible"):
        predicted(model_of(file), rows, dtype="float16")
    with pytest.raises(InvalidSpec, match=r"is a folder; give a .keras file"):
        model_of(tmp_path).check()
    with pytest.raises(InvalidSpec, match="names 1 column, but the model takes 64 values"):
        predicted(model_of(file, columns=["a"]), rows_of(a=[1.0]))
    contents = {"old.h5": b"\x89HDF\r\n", "text": b"hello"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidSpec, match=r"old HDF5 format: load it with the Keras that wrote"):
        model_of(tmp_path / "old.h5").check()
    with pytest.raises(InvalidSpec, match=r"is not a .keras file: load it"):
        model_of(tmp_path / "text").check()
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.json", json.dumps({}))
    with pytest.raises(InvalidSpec, match=r"is a zip file but not a .keras file"):
        model_of(tmp_path / "other.zip").check()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "keras" or None)
    with pytest.raises(InvalidSpec, match="'jax' needs the package jax: pip install jax"):
        model_of(file, backend="jax").check()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InvalidSpec, match=r"pip install 'prefect-ray-data\[keras\]'"):
        model_of(file).check()


@pytest.mark.parametrize(
    ("part", "length", "message"),
    [
        ("config.json", 5, "is broken, its config.json cannot be read"),
        (
            "model.weights.h5",
            500,
            "cannot be loaded by Keras .*truncated file.*check that the file is complete",
        ),
    ],
)
def test_a_file_with_a_part_cut_off(
    tmp_path: Path, keras: Any, part: str, length: int, message: str
) -> None:
    import zipfile

    file = digits_model(keras, tmp_path / "digits.keras")
    with (
        zipfile.ZipFile(file) as whole,
        zipfile.ZipFile(tmp_path / "cut.keras", "w") as cut,
    ):
        for name in whole.namelist():
            content = whole.read(name)
            cut.writestr(name, content[:length] if name == part else content)
    model = model_of(tmp_path / "cut.keras")

    def load() -> None:
        model.check()
        model.predictor(Placement())

    with pytest.raises(InvalidSpec, match=message):
        load()


def test_the_backend(tmp_path: Path, keras: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file, rows = digits_model(keras, tmp_path / "digits.keras"), rows_of(pixels=unseen())
    with pytest.raises(InvalidSpec, match="has already imported keras with torch"):
        model_of(file, backend="jax").predictor(Placement())
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    assert keras_backend.chosen("auto") == "torch"
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert keras_backend.chosen("auto") == "jax"
    assert keras_backend.chosen("tensorflow") == "tensorflow"
    monkeypatch.setenv("KERAS_BACKEND", "theano")
    with pytest.raises(InvalidSpec, match="'theano' is KERAS_BACKEND in the environment"):
        model_of(file).check()
    if not keras_backend.sees_gpu(keras, "torch"):
        message = "resources.num_gpus: 'cuda' .* the torch on this node sees none"
        with pytest.raises(InvalidSpec, match=message):
            predicted(model_of(file, backend="torch"), rows, device="cuda")


def test_what_a_model_calculates_in_64_bits_is_given_in_them(tmp_path: Path, keras: Any) -> None:
    number = keras.Input((1,), dtype="float64")
    third = keras.layers.Rescaling(1 / 3, dtype="float64")
    file = save(keras.Model(number, third(number)), tmp_path / "wide.keras")
    given = np.array([1.0, 123_456_789.25])
    made = predicted(model_of(file), rows_of(pixels=given))
    assert made["prediction"].to_pylist() == (given * (1 / 3)).tolist()


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_other_backends_predict_as_they_do_alone(tmp_path: Path, keras: Any, backend: str) -> None:
    """From files that Keras wrote on torch. A process has one backend, so each gets its own."""
    if importlib.util.find_spec(backend) is None:  # importing it takes seconds
        pytest.skip(f"needs {backend}")
    dense = [keras.layers.Dense(10), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.Input((64,)), *dense])
    dense[0].set_weights(weights())
    save(model, tmp_path / "digits.keras")
    number = keras.Input((1,), name="number", dtype="int64")
    half = keras.Input((1,), name="half", dtype="float64")
    # Of a third TensorFlow's Keras has no more than 32 bits.
    quarter = keras.layers.Rescaling(0.25, dtype="float64")(half)
    outputs = {"double": number * 2, "quarter": quarter}
    save(keras.Model([number, half], outputs), tmp_path / "wide.keras")

    command = [sys.executable, "-m", "tests.kinds.one_backend", backend, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    assert found["backend"] == backend
    np.testing.assert_allclose(found["predicted"], found["direct"], atol=1e-6)
    here = model(unseen(), training=False).detach().numpy()
    np.testing.assert_allclose(found["predicted"], here, atol=1e-5)
    assert found["double"].tolist() == [2 * each for each in NUMBERS]
    assert found["quarter"].tolist() == [each / 8 for each in NUMBERS], "of 64 bits"
    assert found["platforms"] == ("cpu" if backend == "jax" else ""), "no GPU that others have"


def test_an_input_of_texts_is_given_texts_and_gives_texts(keras: Any) -> None:
    """As TextVectorization takes them, and StringLookup makes them; TensorFlow alone has such."""
    words = keras.Input((1,), dtype="string", name="words")
    (wanted,) = keras_file.inputs_of(Mock(inputs=[words])).values()
    given = array_of(rows_of(words=["good day", ""]), ["words"], wanted)
    assert given.tolist() == [["good day"], [""]]
    made = np.array([["né".encode()], [b""]], object)
    assert keras_file.as_numpy(made).tolist() == [["né"], [""]]


@pytest.mark.parametrize("problem", [None, RuntimeError("it has begun")])
def test_tensorflow_takes_no_gpu_that_it_is_not_given(
    problem: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensorflow = Mock()
    tensorflow.config.set_visible_devices.side_effect = problem
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    keras_backend.leave_gpus("tensorflow")
    tensorflow.config.set_visible_devices.assert_called_once_with([], "GPU")


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path, keras: Any) -> None:
    if not keras_backend.sees_gpu(keras, keras.config.backend()):
        pytest.skip("needs a GPU and a backend built for it")
    file = digits_model(keras, tmp_path / "digits.keras")
    made = predicted(model_of(file), rows_of(pixels=unseen()), device="cuda")
    np.testing.assert_allclose(values(made), logits(), atol=1e-3)
