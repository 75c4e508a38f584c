"""The torch kind: every shape of file, called as the module itself is."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds.media import decode_media_columns
from tasks.kinds.models import TorchModel
from tasks.kinds.models.model import DType, Placement
from tasks.kinds.models.tensors import outputs, torch_running
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame
from tests.kinds.digits import digits, digits_module, predicted, rows_of, unseen, values
from tests.kinds.tiny_models import png

CODE = "tests.kinds.torch_code"
DIGITS = f"{CODE}:Digits"


@pytest.fixture(scope="module")
def module() -> Any:
    return digits_module()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, module: Any) -> Path:
    """The trained module in all shapes of file."""
    import torch
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("torch")
    state, example = module.state_dict(), torch.zeros(8, 64)
    torch.save(state, folder / "weights.pt")
    torch.save(state, folder / "old.pth", _use_new_zipfile_serialization=False)
    torch.save({"epoch": 3, "model_state_dict": state}, folder / "checkpoint.pt")
    save_file(state, folder / "weights.safetensors")
    torch.save(module, folder / "module.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(module, example).save(folder / "script.pt")
    rows = {0: torch.export.Dim("rows", min=1)}
    torch.export.save(
        torch.export.export(module, (example,), dynamic_shapes=(rows,)), folder / "any.pt2"
    )
    torch.export.save(torch.export.export(module, (example,)), folder / "eight.pt2")
    return folder


def direct(module: Any, pixels: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        made: np.ndarray = module(torch.from_numpy(pixels)).numpy()
    return made


WEIGHTS: dict[str, Any] = {"class": DIGITS}
FILES: dict[str, dict[str, Any]] = {
    "weights.pt": WEIGHTS,
    "old.pth": WEIGHTS,
    "weights.safetensors": WEIGHTS,
    "checkpoint.pt": {**WEIGHTS, "state_dict_key": "model_state_dict"},
    "script.pt": {},
    "any.pt2": {},
    "eight.pt2": {},
}


BRIGHTNESS: dict[str, Any] = {"class": f"{CODE}:Brightness"}


def model_of(path: Path, columns: tuple[str, ...] = ("pixels",), **fields: Any) -> TorchModel:
    return TorchModel.model_validate({"path": str(path), "columns": [*columns], **fields})


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("file", FILES)
def test_every_shape_of_file_gives_what_the_module_gives(
    folder: Path, module: Any, file: str, batch_size: int | None
) -> None:
    model = model_of(folder / file, **FILES[file])
    made = predicted(model, rows_of(pixels=unseen()), batch_size=batch_size)
    assert made.column_names == [ROW, "pixels", "prediction"]
    assert made["prediction"].type == pa.list_(pa.float32(), 10)
    np.testing.assert_allclose(values(made), direct(module, unseen()), atol=1e-5)


@pytest.mark.parametrize(
    ("least", "most", "batch_size", "wanted"),
    [(4, 16, None, [16, 6]), (4, None, 19, [19, 4]), (2, 8, 1, [1] * 22), (3, 20, 1, [3] * 8)],
)
def test_a_program_gets_as_many_rows_as_it_takes(
    folder: Path,
    module: Any,
    least: int,
    most: int | None,
    batch_size: int | None,
    wanted: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    rows = {0: torch.export.Dim("rows", min=least, max=most)}
    example = (torch.zeros(8, 64),)
    program = torch.export.export(module, example, dynamic_shapes=(rows,))
    torch.export.save(program, folder / "some.pt2")
    sizes, whole = list[int](), outputs.named

    def noting(returned: Any, names: Any, count: int) -> Any:
        sizes.append(count)
        return whole(returned, names, count)

    monkeypatch.setattr(torch_running, "named", noting)
    made = predicted(
        model_of(folder / "some.pt2"), rows_of(pixels=unseen()[:22]), batch_size=batch_size
    )
    assert sizes == wanted
    np.testing.assert_allclose(values(made), direct(module, unseen()[:22]), atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("file", ["weights.pt", "script.pt", "any.pt2"])
def test_on_a_gpu(folder: Path, module: Any, file: str) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU and a torch built for it")
    model = model_of(folder / file, **FILES[file])
    made = predicted(model, rows_of(pixels=unseen()), device="cuda")
    np.testing.assert_allclose(values(made), direct(module, unseen()), atol=1e-3)


def test_labels_as_many_as_asked_for(folder: Path, module: Any) -> None:
    import torch

    model = model_of(folder / "weights.pt", **WEIGHTS, labels=10, top_k=2)
    made = predicted(model, rows_of(pixels=unseen()))
    logits = torch.from_numpy(direct(module, unseen()))
    scores, best = logits.softmax(1).topk(2)
    assert made["predicted_label"].to_pylist() == [[*map(str, each)] for each in best.tolist()]
    np.testing.assert_allclose(values(made, "predicted_score"), scores, atol=1e-6)
    first = np.asarray([int(each[0]) for each in made["predicted_label"].to_pylist()])
    assert (first == digits()[1][-len(first) :]).mean() > 0.85


def test_columns_side_by_side_are_a_matrix(folder: Path, module: Any) -> None:
    names = [f"p{at}" for at in range(64)]
    rows = rows_of(**dict(zip(names, unseen().T.astype(np.float64), strict=True)))
    made = predicted(model_of(folder / "any.pt2", tuple(names)), rows)
    np.testing.assert_allclose(values(made), direct(module, unseen()), atol=1e-5)
    with pytest.raises(InvalidSpec, match="names 63 columns, but the model takes 64 values a row"):
        predicted(model_of(folder / "any.pt2", tuple(names[1:])), rows)
    missing = rows.set_column(3, "p2", pa.array([None, *rows["p2"].to_pylist()[1:]]))
    with pytest.raises(ValueError, match="column 'p2' is empty in this row"):
        predicted(model_of(folder / "any.pt2", tuple(names)), missing.slice(0, 1))


@pytest.mark.parametrize(("dtype", "large"), [("float32", 1e39), ("float16", 1e5)])
def test_what_would_be_infinite_to_the_model_is_set_aside(
    folder: Path, dtype: DType, large: float
) -> None:
    pixels = unseen()[:4].astype(np.float64)
    pixels[2, 0] = large
    model = model_of(folder / "weights.pt", **WEIGHTS)
    outcome = call_with_blame(model.predictor(Placement(dtype=dtype)), rows_of(pixels=pixels))
    assert list(outcome.failed) == [7 + 2]
    assert f"input has a number too large for torch.{dtype}" in str(outcome.failed[7 + 2])


@pytest.mark.parametrize(("dtype", "lost"), [("float32", []), ("float16", [7 + 2])])
def test_minus_infinity_is_a_logarithm_and_no_number_too_large(
    tmp_path: Path, dtype: DType, lost: list[int]
) -> None:
    import torch

    from tests.kinds.torch_code import Large

    torch.save(Large().state_dict(), tmp_path / "large.pt")
    model = model_of(tmp_path / "large.pt", ("x",), **{"class": f"{CODE}:Large"})
    rows = rows_of(x=[0.05, -0.05, -1.0])
    outcome = call_with_blame(model.predictor(Placement(dtype=dtype)), rows)
    assert list(outcome.failed) == lost
    assert all("made NaN or infinity, as 'large'" in str(each) for each in outcome.failed.values())
    assert outcome.rows is not None
    logs = values(outcome.rows, "logs")
    assert outcome.rows.schema.field("logs").type == pa.list_(pa.float32(), 2)
    if dtype == "float16":
        np.testing.assert_array_equal(logs, [[0, -np.inf], [-np.inf, 0]])
    else:
        np.testing.assert_array_equal(np.isneginf(logs[:, 0]), [False, False, True])


@pytest.mark.parametrize("file", ["weights.pt", "any.pt2", "eight.pt2"])
def test_bad_rows_are_rejected_alone(folder: Path, module: Any, file: str) -> None:
    pixels: list[Any] = [*unseen()[:20]]
    pixels[3], pixels[11], pixels[12] = None, pixels[11][:50], [0.5] * 63 + [None]
    predict = model_of(folder / file, **FILES[file]).predictor(Placement())
    outcome = call_with_blame(predict, rows_of(pixels=pixels))
    assert sorted(outcome.failed) == [7 + 3, 7 + 11, 7 + 12]
    assert outcome.rows is not None
    good = np.delete(np.arange(20), [3, 11, 12])
    np.testing.assert_allclose(values(outcome.rows), direct(module, unseen()[:20][good]), atol=1e-5)


def several(tmp_path: Path, returns: str, **fields: Any) -> TorchModel:
    """A module with two inputs."""
    import torch

    from tests.kinds.torch_code import Several

    torch.manual_seed(0)
    torch.save(Several(returns).state_dict(), tmp_path / "several.pt")
    given = {
        "path": str(tmp_path / "several.pt"),
        "class": f"{CODE}:Several",
        "init": {"returns": returns},
        "inputs": {"x": ["a", "b", "c"], "category": "kind"},
        "integers": ["kind"],
    }
    return TorchModel.model_validate({**given, **fields})


ROWS = rows_of(a=[1.0, 2.0], b=[0, 1], c=[True, False], kind=[4, 0])


def sums(model: TorchModel) -> np.ndarray:
    """What the module should make of ROWS."""
    import torch

    table = torch.load(model.path, weights_only=True)["table.weight"].numpy()
    return np.asarray([[1, 0, 1], [2, 1, 0]], np.float32) + table[[4, 0]]


@pytest.mark.parametrize(
    ("returns", "names"),
    [
        ("dict", ["total", "double"]),
        ("named", ["total", "double"]),
        ("tuple", ["output_0", "output_1"]),
    ],
)
def test_several_inputs_and_outputs(tmp_path: Path, returns: str, names: list[str]) -> None:
    model = several(tmp_path, returns)
    made = predicted(model, ROWS)
    assert made.column_names[-2:] == names
    np.testing.assert_allclose(values(made, names[0]), sums(model), atol=1e-6)
    np.testing.assert_allclose(values(made, names[1]), 2 * sums(model)[:, 0], atol=1e-6)
    both = predicted(several(tmp_path, returns, outputs=names[::-1]), ROWS)
    assert both.column_names[-2:] == names[::-1]
    one = predicted(several(tmp_path, returns, outputs=[names[1]]), ROWS)
    assert one.column_names[-1] == "prediction"
    assert one["prediction"].to_pylist() == made[names[1]].to_pylist()


def test_an_exported_program_with_several_inputs(tmp_path: Path) -> None:
    import torch

    from tests.kinds.torch_code import Several

    model = several(tmp_path, "tuple")
    expected = predicted(model, ROWS)
    module = Several("tuple").eval()
    module.load_state_dict(torch.load(model.path, weights_only=True))
    example = {"x": torch.zeros(3, 3), "category": torch.zeros(3, dtype=torch.int64)}
    rows = torch.export.Dim("rows", min=1)
    shapes = {name: {0: rows} for name in example}
    for at, (args, kwargs) in enumerate([((*example.values(),), None), ((), example)]):
        program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes)
        torch.export.save(program, tmp_path / f"{at}.pt2")
        given = {"path": str(tmp_path / f"{at}.pt2"), "inputs": model.inputs}
        made = predicted(TorchModel.model_validate(given), ROWS)
        for name in ("output_0", "output_1"):
            np.testing.assert_allclose(values(made, name), values(expected, name), atol=1e-6)
        with pytest.raises(InvalidSpec, match=r"has the inputs \['x', 'category'\]"):
            predicted(model_of(tmp_path / f"{at}.pt2", ("a",)), ROWS)
        given["inputs"] = {"x": ["a", "b", "c"]}
        with pytest.raises(InvalidSpec, match="do not match the model's inputs:"):
            predicted(TorchModel.model_validate(given), ROWS)
        fraction = rows_of(a=[1.0], b=[1.0], c=[1.0], kind=[0.5])
        with pytest.raises(
            ValueError, match=r"'kind' has a value that is not int64, .*: 0\.5; convert"
        ):
            predicted(TorchModel.model_validate({**given, "inputs": model.inputs}), fraction)


def test_torchscript_with_several_inputs(tmp_path: Path) -> None:
    import torch

    from tests.kinds.torch_code import Several

    model = several(tmp_path, "tuple")
    module = Several("tuple").eval()
    module.load_state_dict(torch.load(model.path, weights_only=True))
    example = (torch.zeros(3, 3), torch.zeros(3, dtype=torch.int64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(module, example).save(tmp_path / "several.ts")
    given = {"path": str(tmp_path / "several.ts"), "inputs": model.inputs, "integers": ["kind"]}
    made = predicted(TorchModel.model_validate(given), ROWS)
    np.testing.assert_allclose(values(made, "output_0"), sums(model), atol=1e-6)
    np.testing.assert_allclose(values(made, "output_1"), 2 * sums(model)[:, 0], atol=1e-6)


@pytest.mark.parametrize(
    "use", ["embedding", "one_hot", "places", "index_select", "take", "gather"]
)
def test_a_module_that_takes_whole_numbers_is_to_be_told_of_them(tmp_path: Path, use: str) -> None:
    import torch

    from tests.kinds.torch_code import Tokens

    torch.save(Tokens().state_dict(), tmp_path / "tokens.pt")
    given = {"class": f"{CODE}:Tokens", "init": {"use": use}}
    rows = rows_of(kind=[4, 0])
    message = (
        r"^model\.integers: \[\] lacks columns that the module takes as whole numbers, .*: list "
        r"there which of \['kind'\] are \("
    )
    with pytest.raises(InvalidSpec, match=message):
        call_with_blame(
            model_of(tmp_path / "tokens.pt", ("kind",), **given).predictor(Placement()), rows
        )
    told = model_of(tmp_path / "tokens.pt", ("kind",), integers=["kind"], **given)
    assert len(predicted(told, rows)) == 2


def test_inputs_of_a_decorated_forward_are_compared_when_it_is_loaded(tmp_path: Path) -> None:
    model = several(tmp_path, "tuple", **{"class": f"{CODE}:SeveralWithoutGradients"})
    model.check()
    predicted(model, ROWS)
    other = model.model_copy(update={"inputs": {"x": ["a", "b", "c"], "kind": "kind"}})
    other.check()
    with pytest.raises(
        InvalidSpec, match=r"model\.inputs: \['x', 'kind'\] do not fit .*takes x, c"
    ):
        predicted(other, ROWS)


@pytest.mark.parametrize("name", ["HandedOver", "HookedUp"])
def test_what_comes_between_a_call_and_forward_may_change_its_inputs(
    tmp_path: Path, name: str
) -> None:
    import torch

    from tests.kinds import torch_code

    torch.save(getattr(torch_code, name)().state_dict(), tmp_path / "weights.pt")
    model = model_of(tmp_path / "weights.pt", ("a", "b", "c"), **{"class": f"{CODE}:{name}"})
    model.check()
    assert len(predicted(model, ROWS)) == len(ROWS)


def test_an_error_over_shapes_says_which_ones_there_were(tmp_path: Path) -> None:
    """A column of numbers is one dimension, and of several, side by side, two."""
    import torch

    from tests.kinds.torch_code import Beside

    torch.save(Beside().state_dict(), tmp_path / "beside.pt")
    given: dict[str, Any] = {"class": f"{CODE}:Beside", "columns": []}
    rows = rows_of(picture=[[1.0, 2.0], [3.0, 4.0]], age=[5.0, 6.0])
    model = model_of(tmp_path / "beside.pt", **given, inputs={"picture": "picture", "age": "age"})
    told = r"it was called with picture \(rows, 2\), age \(rows\); .*, such as \[age\], .*"
    with pytest.raises(RuntimeError, match=told):
        predicted(model, rows)
    model = model.model_copy(update={"inputs": {"picture": "picture", "age": ["age"]}})
    np.testing.assert_allclose(values(predicted(model, rows)), [[1, 2, 5], [3, 4, 6]])


@pytest.mark.parametrize("file", ["weights.pt", "script.pt"])
def test_too_few_columns_are_no_rows_fault(folder: Path, file: str) -> None:
    fields = WEIGHTS if file == "weights.pt" else {}
    rows = rows_of(a=[1.0, 2.0], b=[0.5, 0.25])
    message = r"model\.columns: \['a', 'b'\] give the module another .* \(2x2 and 64x10\)$"
    with pytest.raises(InvalidSpec, match=message):
        call_with_blame(model_of(folder / file, ("a", "b"), **fields).predictor(Placement()), rows)


def test_a_row_of_which_a_module_makes_no_places_is_rejected_alone(tmp_path: Path) -> None:
    """Once it has taken others: then fractions are not what it cannot do with."""
    import torch

    from tests.kinds.torch_code import Picky

    torch.save(Picky().state_dict(), tmp_path / "picky.pt")
    model = model_of(tmp_path / "picky.pt", ("x",), **{"class": f"{CODE}:Picky"})
    run = model.predictor(Placement())
    assert len(run(rows_of(x=[1.0]))) == 1
    outcome = call_with_blame(run, rows_of(x=[1.0, -1.0, 2.0]))
    assert list(outcome.failed) == [7 + 1]


def test_a_script_is_to_be_told_of_whole_numbers_too(tmp_path: Path) -> None:
    import torch

    from tests.kinds.torch_code import Tokens

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        example = torch.zeros(3, 1, dtype=torch.int64)
        torch.jit.trace(Tokens(), example).save(tmp_path / "tokens.ts")
    with pytest.raises(InvalidSpec, match=r"^model\.integers: .* of \['kind'\] are \("):
        predicted(model_of(tmp_path / "tokens.ts", ("kind",)), rows_of(kind=[4, 0]))


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        ("nested", "output 'state' is of type tuple: leave it out in model.outputs"),
        ("mean", r"output 'output' is of shape \(3,\) for 2 rows: its first dimension must be"),
        ("one", r"output 'output' is of shape \(\) for 2 rows"),
    ],
)
def test_outputs_that_are_no_columns(tmp_path: Path, returns: str, message: str) -> None:
    with pytest.raises(UserCodeBroke, match=message):
        predicted(several(tmp_path, returns), ROWS)


def test_memory_that_is_filled_for_each_batch_holds_that_batch(tmp_path: Path) -> None:
    import torch

    torch.save({"factor": torch.tensor(2.0)}, tmp_path / "reusing.pt")
    given = {"path": str(tmp_path / "reusing.pt"), "class": f"{CODE}:Reusing", "columns": ["x"]}
    rows = rows_of(x=[float(each) for each in range(7)])
    made = predicted(TorchModel.model_validate(given), rows, batch_size=3)
    assert made["prediction"].to_pylist() == [0, 2, 4, 6, 8, 10, 12]


def test_one_value_is_that_of_the_only_row(tmp_path: Path) -> None:
    """As `squeeze` gives it, of the last row where a batch has room for the others."""
    model = several(tmp_path, "squeezed")
    made = predicted(model, ROWS, batch_size=1)["prediction"]
    np.testing.assert_allclose(made.to_numpy(), 2 * sums(model)[:, 0], atol=1e-6)
    assert made == predicted(model, ROWS)["prediction"]


def test_all_that_comes_of_a_batch_of_one_is_of_the_only_row(tmp_path: Path) -> None:
    """Lists too: squeezed, they are of as many values as the model has scores."""
    model = several(tmp_path, "squeezed lists")
    made = predicted(model, ROWS, batch_size=1)
    np.testing.assert_allclose(values(made), sums(model), atol=1e-6)
    assert made.equals(predicted(model, ROWS))
    assert made.slice(1).equals(predicted(model, ROWS.slice(1)))
    model = several(tmp_path, "squeezed dict")
    assert predicted(model, ROWS, batch_size=1).equals(predicted(model, ROWS))
    with pytest.raises(UserCodeBroke, match=r"output 'output' is of shape \(0, 3\) for 1 row: "):
        predicted(several(tmp_path, "empty"), ROWS, batch_size=1)


def test_outputs_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"'sum' is not among \['total', 'double'\]"):
        predicted(several(tmp_path, "dict", outputs=["sum"]), ROWS)
    with pytest.raises(InvalidSpec, match=r"set one of"):
        predicted(several(tmp_path, "dict", labels=3), ROWS)
    with pytest.raises(InvalidSpec, match="names 4 labels, and the model gives 3 scores"):
        predicted(several(tmp_path, "dict", labels=4, outputs=["total"]), ROWS)


@pytest.mark.parametrize(("dtype", "atol"), [("auto", 1e-6), ("bfloat16", 1e-2)])
def test_images_go_in_as_they_are_decoded(tmp_path: Path, dtype: str, atol: float) -> None:
    import torch

    from tests.kinds.torch_code import Brightness

    torch.save(Brightness().state_dict(), tmp_path / "w.pt")
    model = model_of(tmp_path / "w.pt", ("image",), **BRIGHTNESS)
    images = [np.full((4, 5, 3), each, np.uint8) for each in (0, 128, 255)]
    media = pa.field("image", pa.binary(), metadata={b"media": b"image"})
    encoded = pa.table([pa.array([*map(png, images)])], schema=pa.schema([media]))
    made = predicted(model, decode_media_columns(encoded), dtype=dtype)
    assert made["prediction"].type == pa.float32()
    np.testing.assert_allclose(values(made), [0, 128, 255], rtol=atol)


REFUSED = {
    "a module": (
        "module.pt",
        WEIGHTS,
        r"not a plain state_dict.*GLOBAL torch\.nn\.modules|.*torch_code\.Digits",
    ),
    "a whole checkpoint": ("checkpoint.pt", WEIGHTS, r"more than tensors \(epoch, model_state"),
    "a key that is not there": (
        "checkpoint.pt",
        {**WEIGHTS, "state_dict_key": "net"},
        r"nothing under model.state_dict_key 'net': it has \['epoch', 'model_state_dict'\]",
    ),
    "weights without a module": ("weights.pt", {}, "contains only weights: set their module"),
    "a program with a module": ("any.pt2", WEIGHTS, "whole model .exported program.: leave class"),
    "a key in a file of weights alone": (
        "weights.safetensors",
        {**WEIGHTS, "state_dict_key": "net"},
        r"model.state_dict_key: 'net' is set, but the file is no checkpoint .*safetensors.: leave",
    ),
    "arguments of no class": (
        "any.pt2",
        {"init": {"width": 64}},
        r"model.init: \['width'\] are arguments of model.class, which is not set",
    ),
    "no such class": ("weights.pt", {"class": f"{CODE}:Nets"}, "is not there: torch_code.py"),
    "an argument that the class does not take": (
        "weights.pt",
        {**WEIGHTS, "init": {"breadth": 64}},
        r"model\.init: \{'breadth': 64\} does not fit .*:Digits: got an unexpected .* 'breadth'",
    ),
    "an input of another name": (
        "weights.pt",
        {**WEIGHTS, "columns": [], "inputs": {"pixels": "pixels"}},
        r"model\.inputs: \['pixels'\] do not fit .*:Digits\.forward, which takes x: ",
    ),
    "one input for two": (
        "weights.pt",
        {"class": f"{CODE}:Several"},
        r"model\.columns: \['pixels'\] is a single input, which does not fit .*:Several\.forward "
        r"\(missing a required argument: 'category'\): set the columns of each of its arg",
    ),
    "whole numbers elsewhere": (
        "weights.pt",
        {**WEIGHTS, "integers": ["ids"]},
        r"model.integers: \['ids'\] must be among the input columns, \['pixels'\]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_before_anything_starts(folder: Path, case: str) -> None:
    file, fields, message = REFUSED[case]
    with pytest.raises(InvalidSpec, match=message):
        model_of(folder / file, **fields).check()


class Evil:
    """Would leave a trace if it were unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def test_no_pickle_is_run(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import logging
    import zipfile

    import torch

    trace = tmp_path / "it-was-run"
    torch.save({"x": Evil(trace)}, tmp_path / "evil.pt")
    torch.save({"x": Evil(trace)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("evil.pt", "old.pt"):
        with pytest.raises(InvalidSpec, match="never unpickled"):
            model_of(tmp_path / name, **WEIGHTS).check()
        with pytest.raises(InvalidSpec, match="never unpickled"):
            predicted(model_of(tmp_path / name, **WEIGHTS), rows_of(pixels=unseen()))
    # An exported program's own reader unpickles what its sample inputs are said to be.
    with (
        zipfile.ZipFile(folder / "any.pt2") as good,
        zipfile.ZipFile(tmp_path / "evil.pt2", "w") as bad,
    ):
        for entry in good.infolist():
            inside = entry.filename.endswith("sample_inputs/model.pt")
            evil = (tmp_path / "evil.pt").read_bytes()
            bad.writestr(entry, evil if inside else good.read(entry))
    model = model_of(tmp_path / "evil.pt2")
    model.check()
    with pytest.raises(InvalidSpec, match="cannot be loaded by PyTorch"):
        predicted(model, rows_of(pixels=unseen()))
    assert not trace.exists()
    # Torch says that it did, and trips over its own words.
    monkeypatch.setattr(logging.getLogger("torch._export.serde.serialize"), "disabled", True)
    torch.export.load(tmp_path / "evil.pt2")
    assert trace.exists(), "torch alone runs it: else this test shows nothing"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["archive/models/model.json", "archive/data/aotinductor/model/x.so"], "machine code"),
        (["config.json", "model.weights.h5"], "is a Keras file: set model.kind to keras"),
        (["a/b.txt"], "is a zip file that PyTorch did not write"),
        ([], "contains neither weights .* nor an exported program .* nor TorchScript"),
    ],
)
def test_other_files(tmp_path: Path, names: list[str], message: str) -> None:
    import zipfile

    (tmp_path / "model.pt").write_bytes(b"hello, world")
    if names:
        with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
            for name in names:
                archive.writestr(name, b"")
    with pytest.raises(InvalidSpec, match=message):
        model_of(tmp_path / "model.pt").check()
    with pytest.raises(InvalidSpec, match="is a folder; give the one file in it"):
        model_of(tmp_path).check()


def test_pickled_constants_of_a_program(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("m/models/model.json", b"{}")
        constants = '{"config": {"c": {"path_name": "opaque_obj_0"}}}'
        archive.writestr("m/data/constants/model_constants_config.json", constants)
    with pytest.raises(InvalidSpec, match=r"contains pickled objects \(opaque_obj_0\)"):
        model_of(tmp_path / "model.pt2").check()


def test_weights_that_do_not_fit(folder: Path) -> None:
    rows = rows_of(pixels=unseen())
    wide = model_of(folder / "weights.pt", **WEIGHTS, init={"width": 63})
    with pytest.raises(InvalidSpec, match=r"does not fit .*:Digits: .* size mismatch for layer\."):
        predicted(wide, rows)
    other = model_of(folder / "weights.pt", **BRIGHTNESS)
    message = "it lacks scale; it also has layer.weight, layer.bias"
    with pytest.raises(InvalidSpec, match=message):
        predicted(other, rows)
    with pytest.raises(InvalidSpec, match=r"model.init: .* does not fit .*unexpected keyword"):
        predicted(model_of(folder / "weights.pt", **WEIGHTS, init={"depth": 2}), rows)
    with pytest.raises(InvalidSpec, match=r"model.init: .* does not make .*Digits: "):
        predicted(model_of(folder / "weights.pt", **WEIGHTS, init={"width": "wide"}), rows)
    secret = {"token": "hunter2"}
    with pytest.raises(InvalidSpec, match="does not fit") as raised:
        predicted(model_of(folder / "weights.pt", **WEIGHTS, init=secret), rows)
    assert "hunter2" not in str(raised.value)
    whole = (folder / "weights.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[:-8])
    with pytest.raises(InvalidSpec, match=r"cut.safetensors' is incomplete: it has \d+ bytes of"):
        model_of(folder / "cut.safetensors", **WEIGHTS).check()
    fields: dict[str, Any] = {"class": f"{CODE}:not_a_module"}
    plain = model_of(folder / "weights.pt", **fields)
    with pytest.raises(InvalidSpec, match=r"makes an object of type dict, not a torch.nn.Module"):
        predicted(plain, rows)


@pytest.mark.parametrize(
    "prefix", ["module.", "_orig_mod.", "module._orig_mod.", "model.", "net._orig_mod."]
)
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_what_was_saved_with_its_wrapper_is_the_module_itself(
    tmp_path: Path, module: Any, prefix: str, ending: str
) -> None:
    import torch
    from safetensors.torch import save_file

    file = tmp_path / f"wrapped.{ending}"
    wrapped = {f"{prefix}{name}": each for name, each in module.state_dict().items()}
    {"pt": torch.save, "safetensors": save_file}[ending](wrapped, file)
    made = predicted(model_of(file, **WEIGHTS), rows_of(pixels=unseen()))
    np.testing.assert_allclose(values(made), direct(module, unseen()), atol=1e-5)
    wrapped["loss.weight"] = torch.zeros(1)
    {"pt": torch.save, "safetensors": save_file}[ending](wrapped, file)
    is_told = "all it needs begins with" if prefix.count(".") == 1 else ""
    with pytest.raises(InvalidSpec, match=rf"it also has .*loss\.weight.*{is_told}"):
        predicted(model_of(file, **WEIGHTS), rows_of(pixels=unseen()))


def test_a_module_that_has_a_wrappers_name_keeps_it(tmp_path: Path, module: Any) -> None:
    import torch

    wrapped = {f"module.{name}": each for name, each in module.state_dict().items()}
    torch.save(wrapped, tmp_path / "m.pt")
    within: dict[str, Any] = {"class": f"{CODE}:Within"}
    made = predicted(model_of(tmp_path / "m.pt", **within), rows_of(pixels=unseen()))
    np.testing.assert_allclose(values(made), direct(module, unseen()), atol=1e-5)
    torch.save({f"model.{name}": each for name, each in wrapped.items()}, tmp_path / "m.pt")
    assert predicted(model_of(tmp_path / "m.pt", **within), rows_of(pixels=unseen())) == made


@pytest.mark.parametrize("kept", ["first", "second"])
def test_a_weight_that_layers_share_is_in_the_file_once(tmp_path: Path, kept: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file, save_model

    from tests.kinds.torch_code import Tied

    torch.manual_seed(0)
    module = Tied()
    file = tmp_path / "tied.safetensors"
    save_model(module, str(file))
    weights = load_file(file)
    shared = weights.pop("first.weight")
    assert [*weights] == ["first.bias", "second.bias"]
    save_file({**weights, f"{kept}.weight": shared}, file)
    tied: dict[str, Any] = {"class": f"{CODE}:Tied"}
    made = predicted(model_of(file, **tied), rows_of(pixels=unseen()))
    np.testing.assert_allclose(values(made), direct(module, unseen()), rtol=1e-5, atol=1e-5)
    save_file(weights, file)
    with pytest.raises(InvalidSpec, match=r"it lacks first\.weight, second\.weight$"):
        predicted(model_of(file, **tied), rows_of(pixels=unseen()))


def test_a_programs_precision_is_its_own(folder: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"resources.dtype: 'bfloat16' is not possible"):
        predicted(model_of(folder / "any.pt2"), rows_of(pixels=unseen()), dtype="bfloat16")


def test_replicas_share_the_files_memory(folder: Path) -> None:
    """Weights are not copied on a CPU: the module's are those of the file."""
    from tasks.kinds.models.tensors import torch_weights

    read = torch_weights.read(folder / "weights.pt", "weights", None)
    made = torch_weights.build(DIGITS, {})
    torch_weights.fill(made, read, DIGITS, "")
    assert {name: each.data_ptr() for name, each in made.named_parameters()} == {
        name: each.data_ptr() for name, each in read.items()
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "list the input columns"),
        ({"columns": ["x"], "inputs": {"x": "x"}}, "not both"),
        ({"columns": ["x"], "top_k": 2}, "top_k: 2 has no effect without model.labels"),
        ({"columns": ["x"], "activation": "sigmoid"}, "'sigmoid' has no effect without model.lab"),
    ],
)
def test_fields_that_do_not_go_together(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TorchModel.model_validate({"path": "x.pt2", **fields})


def test_fingerprint_and_digest_follow_weights_and_code(folder: Path) -> None:
    first = model_of(folder / "weights.pt", **WEIGHTS)
    assert first.fingerprint() != model_of(folder / "old.pth", **WEIGHTS).fingerprint()
    assert first.code_digest()
    assert model_of(folder / "any.pt2").code_digest() == ""


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms"), pa.duration("s")])
def test_times_are_refused_before_the_job(kind: pa.DataType) -> None:
    model = TorchModel(path="x.pt2", columns=["at"])
    with pytest.raises(InvalidSpec, match=r"^model.columns: 'at' is .*, not numbers"):
        model.refuse_types(pa.schema([("at", kind)]))
