"""The onnx kind: as onnxruntime by itself, whatever the model says of its inputs."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import OnnxModel
from tasks.kinds.models.model import Placement
from tasks.kinds.models.tensors import onnx_session
from tasks.kinds.models.tensors.outputs import named
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

BESIDE = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
PIXELS = {"x": ("FLOAT", ["rows", 64])}
SCORES = {"scores": ("FLOAT", ["rows", 10])}


def save(
    file: Path,
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    beside: bool = False,
) -> Path:
    """A model of some nodes and the digits' weights."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def described(each: dict[str, Any]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)
            for name, (kind, shape) in each.items()
        ]

    constants = [
        numpy_helper.from_array(array, name)
        for name, array in zip(("matrix", "bias"), weights(), strict=True)
    ]
    graph = helper.make_graph(nodes, "graph", described(inputs), described(outputs), constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    file.parent.mkdir(exist_ok=True)
    onnx.save_model(made, file, **(BESIDE if beside else {}))
    return file


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs, outputs, **attributes)


def digits_model(file: Path, rows: Any = "rows", **options: Any) -> Path:
    nodes = [node("Gemm", ["x", "matrix", "bias"], ["scores"])]
    inputs, outputs = {"x": ("FLOAT", [rows, 64])}, {"scores": ("FLOAT", [rows, 10])}
    return save(file, nodes, inputs, outputs, **options)


def model_of(path: Path, **fields: Any) -> OnnxModel:
    given = {"columns": ["pixels"]} if "inputs" not in fields else {}
    return OnnxModel.model_validate({"path": str(path), **given, **fields})


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("rows", ["rows", 8])
def test_what_the_weights_give(tmp_path: Path, rows: Any, batch_size: int | None) -> None:
    """Also where the model takes eight rows at a time only, and there are 297."""
    import onnxruntime

    file = digits_model(tmp_path / "digits.onnx", rows)
    made = predicted(model_of(file), rows_of(pixels=unseen()), batch_size=batch_size)
    assert made["prediction"].type == pa.list_(pa.float32(), 10)
    np.testing.assert_allclose(values(made), logits(), atol=1e-5)
    session = onnxruntime.InferenceSession(file)
    (direct,) = session.run(None, {"x": unseen()[:8]})
    np.testing.assert_allclose(values(made)[:8], direct, atol=1e-6)


def test_labels(tmp_path: Path) -> None:
    file = digits_model(tmp_path / "digits.onnx")
    made = predicted(model_of(file, labels=10), rows_of(pixels=unseen()))
    best = logits().argmax(1)
    assert made["predicted_label"].to_pylist() == [*map(str, best)]
    np.testing.assert_allclose(values(made, "predicted_score"), softmax(logits()).max(1), atol=1e-6)
    assert (best == digits()[1][-len(best) :]).mean() > 0.88


def test_bad_rows_are_rejected_alone(tmp_path: Path) -> None:
    pixels: list[Any] = [*unseen()[:20]]
    pixels[3], pixels[11] = None, pixels[11][:50]
    predict = model_of(digits_model(tmp_path / "digits.onnx")).predictor(Placement())
    outcome = call_with_blame(predict, rows_of(pixels=pixels))
    assert {row: str(error) for row, error in outcome.failed.items()} == {
        7 + 3: "column 'pixels' is empty in this row, or a part of it is",
        7 + 11: "column 'pixels' has values of shape (50,), but the model takes 64",
    }
    assert outcome.rows is not None
    good = np.delete(np.arange(20), [3, 11])
    np.testing.assert_allclose(values(outcome.rows), logits()[good], atol=1e-5)


def test_a_row_over_which_onnxruntime_fails_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the row's reason; its own log has a line for each time that the row is tried."""
    nodes = [node("Gemm", ["x", "matrix", "bias"], ["scores"])]
    inputs, outputs = {"x": ("FLOAT", ["rows", "any"])}, {"scores": ("FLOAT", ["rows", 10])}
    file = save(tmp_path / "m.onnx", nodes, inputs, outputs)
    outcome = call_with_blame(
        model_of(file).predictor(Placement()), rows_of(pixels=[*unseen()[:2, :50]])
    )
    assert [type(error).__name__ for error in outcome.failed.values()] == ["InvalidArgument"] * 2
    assert "onnxruntime" not in capfd.readouterr().err


@pytest.mark.parametrize("columns", [["x"], ["x", "y"], ["list"]])
def test_what_would_be_infinite_to_the_model_is_set_aside(
    tmp_path: Path, columns: list[str]
) -> None:
    width = 1 if columns == ["x"] else 2
    numbers = {"x": ("FLOAT16", ["rows", width])}
    nodes = [node("Identity", ["x"], ["same"])]
    file = save(tmp_path / "half.onnx", nodes, numbers, {"same": numbers["x"]})
    numbers_of_rows = np.array([1.0, 65504.0, 1e5, np.inf])
    rows = rows_of(x=numbers_of_rows, y=np.ones(4), list=[[each, 1.0] for each in numbers_of_rows])
    outcome = call_with_blame(model_of(file, columns=columns).predictor(Placement()), rows)
    assert list(outcome.failed) == [7 + 2]
    assert "too large for float16, which the model takes: scale it" in str(outcome.failed[7 + 2])


@pytest.mark.parametrize("columns", [["x"], ["list"]])
def test_what_would_be_infinite_in_32_bits_is_set_aside(tmp_path: Path, columns: list[str]) -> None:
    numbers = {"x": ("FLOAT", ["rows", 1])}
    nodes = [node("Sigmoid", ["x"], ["chance"])]
    file = save(tmp_path / "model.onnx", nodes, numbers, {"chance": numbers["x"]})
    rows = rows_of(x=[1.0, 1e39, np.inf], list=[[1.0], [1e39], [np.inf]])
    outcome = call_with_blame(model_of(file, columns=columns).predictor(Placement()), rows)
    assert list(outcome.failed) == [7 + 1]
    assert "has a number too large for float32, which the model takes: scale it" in str(
        outcome.failed[7 + 1]
    )


def test_nan_and_infinity_are_no_predictions_of_numbers(tmp_path: Path) -> None:
    numbers = {"x": ("FLOAT", ["rows", 2])}
    nodes = [node("Log", ["x"], ["log"]), node("Exp", ["x"], ["exp"])]
    file = save(tmp_path / "m.onnx", nodes, numbers, {"log": numbers["x"], "exp": numbers["x"]})
    given = [[1, 2], [-1, 2], [2, 100], [0, 1], [np.nan, 1], [np.inf, 1], [-np.inf, 1]]
    rows = rows_of(list=np.array(given, np.float32))

    both = call_with_blame(model_of(file, columns=["list"]).predictor(Placement()), rows)
    assert {row: str(error).partition(", from")[0] for row, error in both.failed.items()} == {
        7 + 1: "the model made NaN or infinity, as 'log'",
        7 + 2: "the model made NaN or infinity, as 'exp'",
    }
    assert both.rows is not None
    assert both.rows[ROW].to_pylist() == [7 + at for at in (0, 3, 4, 5, 6)]
    assert values(both.rows, "log")[1, 0] == -np.inf
    one = model_of(file, columns=["list"], outputs=["log"]).predictor(Placement())
    outcome = call_with_blame(one, rows)
    assert list(outcome.failed) == [7 + 1]
    assert "as 'prediction', from this row, which has neither" in str(outcome.failed[7 + 1])


def test_weights_beside_the_model_come_with_its_folder(tmp_path: Path) -> None:
    file = digits_model(tmp_path / "folder" / "digits.onnx", beside=True)
    model = model_of(file.parent)
    before = model.fingerprint()
    np.testing.assert_allclose(
        values(predicted(model, rows_of(pixels=unseen()))), logits(), atol=1e-5
    )
    content = bytearray((file.parent / "weights.bin").read_bytes())
    content[0] ^= 1
    (file.parent / "weights.bin").write_bytes(content)
    assert model.fingerprint() != before
    with pytest.raises(InvalidSpec, match="has its weights in other files: give the folder"):
        predicted(model_of(file), rows_of(pixels=unseen()))


def test_inputs_of_many_types_and_outputs_by_name(tmp_path: Path) -> None:
    nodes = [
        node("Cast", ["count"], ["as_float"], to=1),
        node("Mul", ["as_float", "price"], ["product"]),
        node("Cast", ["product"], ["total"], to=10),
        node("ArgMax", ["pair"], ["larger"], axis=1, keepdims=0),
        node("LabelEncoder", ["word"], ["number"], domain="ai.onnx.ml", keys_strings=["a", "b"],
             values_int64s=[5, 6]),
    ]  # fmt: skip
    inputs = {
        "count": ("INT32", ["rows", 1]),
        "price": ("FLOAT", ["rows", 1]),
        "pair": ("DOUBLE", ["rows", 2]),
        "word": ("STRING", ["rows"]),
    }
    outputs = {
        "total": ("FLOAT16", ["rows", 1]),
        "larger": ("INT64", ["rows"]),
        "number": ("INT64", ["rows"]),
    }
    file = save(tmp_path / "shop.onnx", nodes, inputs, outputs)
    bindings = {"word": "w", "pair": ["x", "y"], "count": "n", "price": "p"}
    rows = rows_of(n=[1, 2], p=[2.5, 3.0], x=[1.0, 1.0 + 1e-12], y=[1 + 1e-12, 1.0], w=["b", "a"])
    made = predicted(model_of(file, inputs=bindings), rows)
    assert made.select(["total", "larger", "number"]).to_pydict() == {
        "total": [2.5, 6.0],
        "larger": [1, 0],  # told apart in 64 bits only
        "number": [6, 5],
    }
    assert made["total"].type == pa.float32()
    one = predicted(model_of(file, inputs=bindings, outputs=["number"]), rows)
    assert one["prediction"].to_pylist() == [6, 5]

    given = model_of(file, inputs=bindings)
    too_large = rows.set_column(1, "n", pa.array([1, 1 << 40]))
    with pytest.raises(ValueError, match="'n' has a value that is not int32"):
        predicted(given, too_large)
    with pytest.raises(ValueError, match="'w' is empty"):
        predicted(given, rows.set_column(5, "w", pa.array(["a", None])))
    with pytest.raises(InvalidSpec, match=r"model.columns: 'w' is string, not numbers"):
        predicted(model_of(file, inputs={**bindings, "pair": ["x", "w"]}), rows)
    with pytest.raises(InvalidSpec, match="'sum' is not among"):
        predicted(model_of(file, inputs=bindings, outputs=["sum"]), rows)
    with pytest.raises(InvalidSpec, match=r"has the inputs \['count', 'price', 'pair', 'word'\]"):
        predicted(model_of(file), rows)


@pytest.mark.parametrize("width", [1, 2], ids=["a column", "a list"])
def test_only_0_and_1_are_truth_values(tmp_path: Path, width: int) -> None:
    shape = {"flags": ("BOOL", ["rows", width])}
    nodes = [node("Not", ["flags"], ["others"])]
    file = save(tmp_path / "flags.onnx", nodes, shape, {"others": ("BOOL", ["rows", width])})
    model = model_of(file, inputs={"flags": "x" if width > 1 else ["x"]})

    def outcome(values: list[Any]) -> Any:
        rows = rows_of(x=[[each] * width for each in values] if width > 1 else values)
        return [np.ravel(each)[0] for each in predicted(model, rows)["prediction"].to_pylist()]

    for flags in ([True, False], [1, 0], [1.0, 0.0]):
        assert outcome(flags) == [False, True]
    with pytest.raises(ValueError, match="'x' has a value other than 0 and 1"):
        outcome([0.3, 0.0])


def test_an_output_that_is_no_tensor(tmp_path: Path) -> None:
    """As scikit-learn's classifiers are converted where nobody says otherwise."""
    import onnx
    from onnx import helper

    nodes = [
        node("Gemm", ["x", "matrix", "bias"], ["scores"]),
        node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[*range(10)]),
    ]
    file = save(tmp_path / "zipped.onnx", nodes, PIXELS, SCORES)
    made = onnx.load(file)
    kind = helper.make_map_type_proto(
        onnx.TensorProto.INT64, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    )
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(kind))
    made.graph.output.append(maps)
    onnx.save_model(made, file)
    with pytest.raises(InvalidSpec, match=r"'maps' is a seq\(map\(int64,tensor\(float\)\)\)"):
        predicted(model_of(file), rows_of(pixels=unseen()))
    made_of_one = predicted(model_of(file, outputs=["scores"]), rows_of(pixels=unseen()))
    np.testing.assert_allclose(values(made_of_one), logits(), atol=1e-5)


def test_outputs_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As scikit-learn's classifiers of named classes are converted with zipmap=False."""
    names = [*"abcdefghij"]
    matrix, bias = weights()
    nodes = [
        node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
             classlabels_strings=names, coefficients=matrix.T.ravel().tolist(),
             intercepts=bias.tolist(), post_transform="SOFTMAX"),
        node("Unsqueeze", ["label", "bias_axis"], ["column"]),
        node("Concat", ["column", "column"], ["pair"], axis=1),
        node("Unsqueeze", ["pair", "bias_axis"], ["pairs"]),
        node("Constant", [], ["bias_axis"], value_ints=[1]),
    ]  # fmt: skip
    nodes = [nodes[-1], *nodes[:-1]]
    outputs = {"label": ("STRING", ["rows"]), **SCORES}
    outputs |= {"pair": ("STRING", ["rows", 2]), "pairs": ("STRING", ["rows", 1, 2])}
    file = save(tmp_path / "named.onnx", nodes, PIXELS, outputs)
    batches: list[int] = []

    def spied(returned: Any, wanted: Any, rows: int) -> Any:
        batches.append(rows)
        return named(returned, wanted, rows)

    monkeypatch.setattr(onnx_session, "named", spied)
    made = predicted(model_of(file), rows_of(pixels=unseen()))
    assert batches == [256, len(unseen()) - 256]
    best = [names[at] for at in logits().argmax(1)]
    assert made["label"].type == pa.string()
    assert made["label"].to_pylist() == best
    np.testing.assert_allclose(values(made, "scores"), softmax(logits()), atol=1e-5)
    assert made["pair"].to_pylist() == [[each, each] for each in best]
    assert made["pairs"].to_pylist() == [[[each, each]] for each in best]
    alone = predicted(model_of(file, outputs=["label"]), rows_of(pixels=unseen()))
    assert alone["prediction"].to_pylist() == best
    with pytest.raises(InvalidSpec, match=r"model\.labels: .* output 'label' has texts, which"):
        predicted(model_of(file, outputs=["label"], labels=names), rows_of(pixels=unseen()))
    scored = model_of(file, outputs=["scores"], labels=names, activation="none")
    assert predicted(scored, rows_of(pixels=unseen()))["predicted_label"].to_pylist() == best


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(pixels=unseen())
    (tmp_path / "broken.onnx").write_bytes(b"\x3a\x05hello")  # a graph, by its length alone
    with pytest.raises(InvalidSpec, match="cannot be loaded by onnxruntime 1"):
        predicted(model_of(tmp_path / "broken.onnx"), rows)
    digits_model(tmp_path / "digits.onnx")
    with pytest.raises(InvalidSpec, match=r"contains .*onnx: set one of them in model.file"):
        model_of(tmp_path).check()
    with pytest.raises(InvalidSpec, match=r"model.file: 'model.onnx' is not among"):
        model_of(tmp_path, file="model.onnx").check()
    named = predicted(model_of(tmp_path, file="digits.onnx"), rows)
    np.testing.assert_allclose(values(named), logits(), atol=1e-5)
    (tmp_path / "model.pb").touch()
    with pytest.raises(InvalidSpec, match=r"has no file ending in .onnx"):
        model_of(tmp_path / "model.pb").check()
    with pytest.raises(InvalidSpec, match=r"resources.dtype: 'float16' is not possible"):
        predicted(model_of(tmp_path / "digits.onnx"), rows, dtype="float16")
    with pytest.raises(InvalidSpec, match=r"takes \[0, 64\] as 'x', nothing: export it for any"):
        predicted(model_of(digits_model(tmp_path / "of-none.onnx", 0)), rows)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InvalidSpec, match=r"pip install 'prefect-ray-data\[onnx\]'"):
        model_of(tmp_path / "digits.onnx").check()


def test_a_file_that_is_no_whole_model_is_refused_before_the_job(tmp_path: Path) -> None:
    whole = digits_model(tmp_path / "digits.onnx").read_bytes()
    file = tmp_path / "other.onnx"

    def refused(content: bytes) -> str:
        file.write_bytes(content)
        with pytest.raises(InvalidSpec, match=r"model.path: .*other.onnx'") as error:
            model_of(file).check()
        return str(error.value)

    for content in (b"", b"<html>\n", b"hello", b"\x08", b"\x80" * 20, b"\x08\x0a" * 9, whole[:3]):
        assert "is not an ONNX model" in refused(content), content
    cut = len(whole) // 2
    assert re.search(rf"it has {cut} bytes of \d+; download it again", refused(whole[:cut]))
    refused(whole + b"\x3a\x7f")
    with pytest.raises(
        InvalidSpec, match=r"model.path: .* contains other.onnx, which is incomplete"
    ):
        model_of(tmp_path, file="other.onnx").check()
    file.write_bytes(whole)
    model_of(file).check()


def test_a_gpu_is_never_left_unused_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA's code")
    model, rows = model_of(digits_model(tmp_path / "digits.onnx")), rows_of(pixels=unseen())
    message = r"resources.num_gpus: .* has .*CPUExecutionProvider: pip install onnxruntime-gpu"
    with pytest.raises(InvalidSpec, match=message):
        predicted(model, rows, device="cuda")
    # It has the code, and CUDA's own libraries are missing: onnxruntime goes on with the CPU.
    both = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: both)
    with pytest.warns(UserWarning, match="CUDA"), pytest.raises(InvalidSpec, match=message):
        predicted(model, rows, device="cuda")


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("needs onnxruntime-gpu and a GPU")
    file = digits_model(tmp_path / "digits.onnx")
    made = predicted(model_of(file), rows_of(pixels=unseen()), device="cuda")
    np.testing.assert_allclose(values(made), logits(), atol=1e-3)


def test_threads_are_the_replicas_share(tmp_path: Path) -> None:
    from tasks.kinds.models.tensors import onnx_session

    file = digits_model(tmp_path / "digits.onnx")
    session = onnx_session.opened(file, True, Placement(num_threads=3))
    assert session.get_session_options().intra_op_num_threads == 3
    assert session.get_providers() == ["CPUExecutionProvider"]
