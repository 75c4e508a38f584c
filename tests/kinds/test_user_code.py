"""Classes, functions and functions that load a model: what is made of each, and when."""

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds import columns, user_code, user_modules
from tasks.kinds.condition_tree import tree_of
from tasks.kinds.models import PythonModel
from tasks.kinds.models.model import Placement
from tasks.kinds.tensors import tensor_array
from tasks.protocol.batch import ROW, RowBatch
from tasks.ray_job.adaptive_batching import Pace
from tasks.ray_job.blame import call_with_blame
from tasks.ray_job.stage_adapter import StageAdapter

CODE = '''
class Adds:
    def __init__(self, number=1):
        self.number = number

    def __call__(self, batch):
        return batch + self.number

class Lazy:
    """Nothing calls it."""

class Needy:
    def __call__(self, batch, times):
        return batch * times

def twice(batch, times=2):
    return batch * times

def load_model(number=3):
    return Adds(number)

def nothing():
    return None

def scaled(batch, factor):
    return batch * factor

ready = Adds(7)
number = 7
'''


@pytest.fixture(autouse=True)
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brought.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "brought", raising=False)


@pytest.mark.parametrize(
    ("name", "init", "result"),
    [
        ("Adds", {}, 11),
        ("Adds", {"number": 5}, 15),
        ("twice", {}, 20),
        ("twice", {"times": 3}, 30),
        ("load_model", {}, 13),
        ("load_model", {"number": 4}, 14),
        ("ready", {}, 17),
    ],
)
def test_what_is_called_with_a_batch(name: str, init: dict[str, Any], result: int) -> None:
    user_code.check_use("model.class", f"brought:{name}", init)
    function: Any = user_code.made("model.class", f"brought:{name}", init)
    assert function(10) == result


def test_the_precision_of_your_own_code_is_its_own() -> None:
    model = PythonModel(class_="brought:Adds")
    with pytest.raises(InvalidSpec, match=r"resources\.dtype: 'float32' is not possible: your own"):
        model.predictor(Placement(dtype="float32"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Lazy", "Lazy, which cannot be called with a batch: give it"),
        ("nothing", "NoneType, which cannot be called with a batch: give it"),
        ("Needy", "Needy, which cannot be called with a batch alone: .*'times'; pass the rest to"),
    ],
)
def test_what_cannot_be_called_is_refused(name: str, kind: str) -> None:
    with pytest.raises(InvalidSpec, match=f"makes an object of type {kind}"):
        user_code.made("model.class", f"brought:{name}", {})


def test_a_class_without_a_call_is_refused_unseen() -> None:
    with pytest.raises(
        InvalidSpec, match=r"^model\.class: .* makes an object of type Lazy, which cannot be called"
    ):
        user_code.check_use("model.class", "brought:Lazy", {})


@pytest.mark.parametrize(
    ("name", "init", "message"),
    [
        (
            "Adds",
            {"numbers": 5},
            r"model.init: {'numbers': 5} does not fit brought:Adds: got an un",
        ),
        ("twice", {"thrice": 3}, r"model.init: .* does not fit brought:twice: got an unexpected"),
        ("Adds", {"api_key": "k"}, r"model.init: \*\*\* does not fit brought:Adds: got an un"),
        ("scaled", {}, r"model.init: {} does not fit brought:scaled: missing a required argument"),
        ("number", {}, r"model.class: 'brought:number' is int; it must be a class, or a function"),
    ],
)
def test_other_arguments_than_it_takes(name: str, init: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec, match=message):
        user_code.made("model.class", f"brought:{name}", init)
    if name != "number":
        with pytest.raises(InvalidSpec, match=message):
            user_code.check_use("model.class", f"brought:{name}", init)


UNTOLD = """
import dataclasses, functools, torch

@dataclasses.dataclass
class Made:
    number: int
    __call__ = print

class Child(torch.nn.Module):
    pass

class Own(torch.nn.Module):
    def __init__(self, size, /, *, depth, width=3, **more):
        pass

class Loaded:
    def __new__(cls, path):
        return functools.partial(print, path)

class Named:
    def predict(self, batch):
        return batch

    __call__ = predict

if torch:
    class Twice:
        def __init__(self, a): pass
else:
    class Twice:
        def __init__(self, b): pass

@functools.cache
def kept(batch, wrong): pass

def many(*batches, **more): pass
"""


@pytest.mark.parametrize(
    ("name", "init", "message"),
    [
        ("Made", {"number": 1}, None),
        ("Made", {}, None),
        ("Child", {"anything": 1}, None),
        ("Own", {"depth": 2}, "missing a required.* argument: 'size'"),
        ("Loaded", {"path": "x"}, None),
        ("Named", {}, None),
        ("Named", {"size": 1}, "got an unexpected keyword argument 'size'"),
        ("Twice", {"b": 1}, None),
        ("kept", {}, None),
        ("many", {"x": 1}, None),
    ],
)
def test_only_what_the_source_says_for_sure_is_refused_unseen(
    name: str, init: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    (tmp_path / "untold.py").write_text(UNTOLD)
    if message is None:
        user_code.check_use("model.class", f"untold:{name}", init)
        return
    with pytest.raises(InvalidSpec, match=message):
        user_code.check_use("model.class", f"untold:{name}", init)
    assert "untold" not in sys.modules


def test_names_inside_a_class_are_not_the_modules() -> None:
    user_code.check_reference("model.class", "brought:Adds")
    with pytest.raises(InvalidSpec, match=r"defines \['Adds', .*'ready', 'scaled', 'twice'\]"):
        user_code.check_reference("model.class", "brought:__call__")


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
def test_a_column_that_is_not_there_is_told_with_those_that_are(batch_format: Any) -> None:
    rows = pa.table({ROW: pa.array([1], pa.int64()), "x": [1], "y": [2]})
    with pytest.raises(KeyError, match=r"'z'; the batch has the columns x, y"):
        user_code.call(lambda batch: {"a": batch["z"]}, rows, batch_format, False)


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
def test_code_for_one_row_is_told_what_a_batch_is(batch_format: Any) -> None:
    rows = pa.table({ROW: pa.array([1], pa.int64()), "path": ["a/b.png"]})
    with pytest.raises(AttributeError, match=r"no attribute 'rsplit': the code gets a batch of r"):
        user_code.call(lambda row: {"a": row["path"].rsplit("/")}, rows, batch_format, False)
    with pytest.raises(AttributeError, match=r"no attribute 'rsplit'$"):
        user_code.call(lambda row: {"a": row.rsplit("/")}, rows, batch_format, False)


def test_code_that_was_changed_since_it_was_imported_is_not_run(tmp_path: Path) -> None:
    """As in a notebook: its digest would be the new code's."""
    reference = "brought:twice"
    before = user_modules.digest("model.class", reference)
    assert user_modules.load("model.class", reference)(10) == 20
    (tmp_path / "brought.py").write_text(CODE.replace("times=2", "times=3"))
    assert user_modules.digest("model.class", reference) != before
    with pytest.raises(
        InvalidSpec, match="changed since this process imported it, and the old code would run"
    ):
        user_modules.load("model.class", reference)


def test_another_specs_module_of_the_same_name_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in (other := str(tmp_path / "other"), str(tmp_path), other):
        user_modules.put_first(folder)
    assert sys.path[:2] == [other, str(tmp_path)]
    user_modules.load("model.class", "brought:twice")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "brought.py").write_text(CODE)
    importlib.invalidate_caches()
    with pytest.raises(InvalidSpec, match=r"is in .*other/brought\.py, but this process has imp"):
        user_modules.load("model.class", "brought:twice")


@pytest.fixture
def imports_undone() -> Iterator[None]:
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]


@pytest.mark.usefixtures("imports_undone")
@pytest.mark.parametrize(
    ("helper", "within"), [("helper", []), ("lib.helper", []), ("lib.helper", ["lib/__init__.py"])]
)
def test_what_another_specs_code_imports_by_the_same_name_is_not_run(
    helper: str, within: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `utils` is called in many folders: the second spec's rows would be made by the first's."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    code = f"from {helper} import times\n\ndef f(batch):\n    return batch * times\n"
    for times, name in enumerate(("first", "second"), 2):
        content = {f"{name}.py": code, f"{helper.replace('.', '/')}.py": f"times = {times}\n"}
        for file, text in {**dict.fromkeys(within, ""), **content}.items():
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(text)
    user_modules.put_first(str(tmp_path / "first"))
    assert user_modules.load("model.class", "first:f")(10) == 20
    user_modules.put_first(str(tmp_path / "second"))
    refused = rf"'second:f' imports lib\S*, which is in .*second/lib.*, but .* {tmp_path}/first/"
    refused = refused.replace("lib", helper.split(".")[0])
    assert user_modules.digest("model.class", "second:f"), "elsewhere it may run"
    with pytest.raises(InvalidSpec, match=refused):
        user_modules.load("model.class", "second:f")
    assert "second" not in sys.modules
    assert user_modules.load("model.class", "first:f")(10) == 20, "it is as it was imported"


@pytest.mark.usefixtures("imports_undone")
def test_another_specs_module_in_a_folder_of_the_same_name_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which neither has an __init__.py."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("first", "second"):
        (tmp_path / name / "spaced").mkdir(parents=True)
        (tmp_path / name / "spaced" / "model.py").write_text(CODE)
    user_modules.put_first(str(tmp_path / "first"))
    user_modules.load("model.class", "spaced.model:twice")
    user_modules.put_first(str(tmp_path / "second"))
    with pytest.raises(InvalidSpec, match=r"is in .*second/spaced/model\.py, but this process"):
        user_modules.digest("model.class", "spaced.model:twice")


@pytest.mark.parametrize("decorator", ["@ray.remote", "@ray.remote(num_gpus=1)"])
@pytest.mark.parametrize("what", ["class Predictor: pass", "def predict(batch): pass"])
def test_what_ray_alone_can_call_is_refused_by_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decorator: str, what: str
) -> None:
    (tmp_path / "rays_own.py").write_text(f"import ray\n\n{decorator}\n{what}\n")
    monkeypatch.syspath_prepend(tmp_path)
    name = what.split()[1].partition("(")[0].rstrip(":")
    with pytest.raises(InvalidSpec, match=r"model.class: .* has @ray.remote: remove it"):
        user_code.check_reference("model.class", f"rays_own:{name}")


def test_tensors_come_back_as_arrays_do_in_one_or_for_each_row() -> None:
    import torch

    rows = pa.table({ROW: pa.array([1, 2], pa.int64()), "x": [1.0, 2.0]})
    pixels = torch.arange(8.0).reshape(2, 2, 2)

    def predict(batch: dict[str, Any]) -> dict[str, Any]:
        one = {"pixels": pixels, "score": pixels[:, 0, 0]}
        each = {f"{name}s": list(values) for name, values in one.items()}
        return {**batch, **one, **each}

    made = user_code.call(predict, rows, "numpy", False)
    assert made["pixels"].type == made["pixelss"].type == pa.list_(pa.list_(pa.float32(), 2), 2)
    assert made["pixels"] == made["pixelss"]
    assert made["score"] == made["scores"]
    assert made["scores"].type == pa.float32()


MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)
FLOATS_2 = pa.list_(pa.float32(), 2)
BAND = pa.struct([("left", pa.int64()), ("right", pa.int64())])


def of_jax(dtype: str) -> Any:
    import jax.numpy

    return jax.numpy.asarray(MATRIX, dtype)


def of_torch(dtype: str) -> Any:
    import torch

    return torch.tensor(MATRIX).to(getattr(torch, dtype))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: of_torch("bfloat16"), FLOATS_2),
        (lambda: [*of_torch("bfloat16")], FLOATS_2),
        (lambda: of_jax("float32"), FLOATS_2),
        (lambda: of_jax("bfloat16"), FLOATS_2),
        (lambda: [*of_jax("bfloat16")], FLOATS_2),
        (lambda: np.asarray(of_jax("bfloat16")), FLOATS_2),
        (lambda: MATRIX.astype(">f4"), FLOATS_2),
        (lambda: np.matrix(MATRIX), FLOATS_2),
        (lambda: pd.DataFrame({"made": [*of_torch("float32")]}), FLOATS_2),
        (lambda: [np.array(each) for each in MATRIX[:, 0]], pa.float32()),
        (lambda: np.fromiter(map(np.array, MATRIX[:, 0]), object), pa.float32()),
        (lambda: pd.cut(MATRIX[:, 0], [-1, 3, 9], labels=["low", "high"]), pa.string()),
        (lambda: pd.cut(MATRIX[:, 0], [1, 3, 9], labels=["low", "high"]), pa.string()),
        (lambda: pd.DataFrame({"made": pd.cut(MATRIX[:, 0], [0, 2, 9])}), BAND),
        (lambda: pd.cut(MATRIX[:, 0], [0, 2, 9]), BAND),
        (lambda: pd.DataFrame({"made": pd.period_range("2026", periods=3)}), pa.string()),
        (lambda: pd.period_range("2026", periods=3), pa.string()),
        (
            lambda: [{"boxes": of_torch("float32")[None, at], "from": "a"} for at in range(3)],
            pa.struct([("boxes", pa.list_(pa.list_(pa.float32()))), ("from", pa.string())]),
        ),
        (lambda: [[(each, [*each])] for each in of_torch("float32")], None),
    ],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_arrays_of_any_library_come_back_as_numpys_do(make: Any, kind: pa.DataType | None) -> None:
    """In rows that are given together, and in each alone."""
    pytest.importorskip("jax")
    rows = pa.table({ROW: pa.array([1, 2, 3], pa.int64())})
    values = make()
    is_frame = isinstance(values, pd.DataFrame)
    returned = values if is_frame else {"made": values}
    made = user_code.call(lambda _: returned, rows, "numpy", False)["made"]
    assert kind is None or made.type == kind
    if kind == FLOATS_2:
        assert made.to_pylist() == MATRIX.tolist()
    if not is_frame:
        parts: Any = ({"made": values[at : at + 1]} for at in range(3))
        alone = [user_code.call(lambda _: next(parts), rows[:1], "numpy", False) for _ in range(3)]
        assert [each["made"][0].as_py() for each in alone] == made.to_pylist()


@pytest.mark.parametrize("library", ["numpy", "torch", "python"])
def test_one_value_is_that_of_the_only_row(library: str) -> None:
    """As `squeeze` gives it: a row that is alone in the last batch is no worse than others."""

    def predict(batch: dict[str, Any]) -> dict[str, Any]:
        made = batch["x"][:, None] * 2
        if library == "torch":
            import torch

            made = torch.from_numpy(made)
        return {"made": made.squeeze().item() if library == "python" else made.squeeze()}

    rows = pa.table({ROW: pa.array([1, 2], pa.int64()), "x": [1.5, 2.5]})
    assert user_code.call(predict, rows[:1], "numpy", False)["made"].to_pylist() == [3.0]
    if library != "python":
        assert user_code.call(predict, rows, "numpy", False)["made"].to_pylist() == [3.0, 5.0]
    with pytest.raises(UserCodeBroke, match=r"2 rows given and 1 returned"):
        call_with_blame(lambda given: user_code.call(mean_of_x, given, "numpy", False), rows)


@pytest.mark.parametrize("library", ["numpy", "torch", "series", "arrow", "table", "frame"])
def test_memory_that_is_filled_for_each_batch_holds_that_batch(library: str) -> None:
    """A result that came as the model's own memory would become that of the rows after it."""
    import torch

    own, flat = np.zeros((2, 3)), np.zeros(2)
    frame = pd.DataFrame({"made": np.zeros(2)})

    def predict(batch: dict[str, Any]) -> Any:
        own[:] = batch["x"][:, None] * 2
        flat[:] = frame.loc[:, "made"] = batch["x"] * 2
        column = pa.array(flat)
        made = {"numpy": own, "torch": torch.from_numpy(own), "series": pd.Series(own[:, 0])}
        whole = {"frame": frame, "table": pa.table({"made": column})}
        return whole.get(library, {"made": made.get(library, column)})

    stage = StageAdapter("infer", (partial(made_by, predict),), Pace.fixed(2), cuts_itself=False)
    rows = pa.table({ROW: pa.array(range(6), pa.int64()), "x": np.arange(6.0)})
    (done,) = stage(RowBatch(rows=rows, sources={0: "/in/a.csv"}))
    found = np.array(done.rows["made"].to_pylist()).reshape(6, -1)[:, 0]
    assert found.tolist() == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
@pytest.mark.parametrize("kind", [pa.list_(pa.float64(), 2), pa.list_(pa.float64())], ids=str)
def test_lists_may_be_written_to(batch_format: Any, kind: pa.DataType) -> None:
    lists = pa.array([[3.0, 4.0], None, [0.0, 2.0]], kind)
    rows = pa.table({ROW: pa.array([1, 2, 3], pa.int64()), "v": lists})

    def predict(batch: Any) -> dict[str, Any]:
        there = [each for each in batch["v"] if each is not None]
        for each in there:
            each /= np.linalg.norm(each)
        return {"made": [there[0][0], None, there[1][1]]}

    made = user_code.call(predict, rows, batch_format, False)
    assert made["made"].to_pylist() == [0.6, None, 1.0]
    assert lists.to_pylist() == [[3.0, 4.0], None, [0.0, 2.0]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[[1, 2], [3, 4]], [[5], [6, 7]], None, []], pa.int16()),  # an array, and one of arrays
        ([[[1, 2], [3, 4]], [None, [6, 7]], [None]], pa.int16()),
        ([[[1], [2, 3]], [], [[]]], pa.int16()),
        ([[["a", "b"], ["c", None]], [["d"], []]], pa.string()),
    ],
)
def test_lists_of_lists_come_back_as_what_is_in_them(values: list[Any], kind: pa.DataType) -> None:
    kind = pa.list_(pa.list_(kind))
    rows = pa.table({"x": pa.array(values, kind)})
    made = made_by(lambda batch: {"made": batch["x"][::-1]}, rows)["made"]
    assert (made.type, made.to_pylist()) == (kind, values[::-1])


@pytest.mark.parametrize("word", ["word", b"word"])
def test_words_in_arrays_of_which_each_call_has_another_shape_are_words(word: str | bytes) -> None:
    """They were places in memory: the bytes of NumPy's objects, which Arrow makes of words."""

    def predict(batch: dict[str, Any]) -> dict[str, Any]:
        count = len(batch["x"])
        return {"made": np.full((count, count, 2), word)}

    stage = StageAdapter("infer", (partial(made_by, predict),), Pace.fixed(2), cuts_itself=False)
    rows = pa.table({ROW: pa.array(range(3), pa.int64()), "x": np.arange(3.0)})
    (done,) = stage(RowBatch(rows=rows, sources={0: "/in/a.csv"}))
    pair = [word, word]
    assert done.rows["made"].to_pylist() == [[pair, pair], [pair, pair], [pair]]


@pytest.mark.parametrize(
    "words",
    [
        [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"", b"a\0\0b"],
        ["a\0b", "", "\0c"],
        [[b"a\0b", b"c"], [b"", b"\0d"], [b"e", b"f"]],
        [["a\0b", "c"], ["", "\0d"], ["e", "f"]],
    ],
    ids=["bytes", "texts", "pairs of bytes", "pairs of texts"],
)
def test_words_with_zeros_in_them_come_back_whole(words: list[Any]) -> None:
    """Arrow takes an array's words as C does: of a PNG file there were eight bytes left."""
    rows = pa.table({"x": [1, 2, 3]})
    assert made_by(lambda _: {"made": np.array(words)}, rows)["made"].to_pylist() == words


def test_bytes_in_lists_have_the_zeros_at_their_end() -> None:
    values = [[b"a\0", b"\0\0"], [b"", b"b"], None]
    seen = list[Any]()

    def predict(batch: dict[str, Any]) -> dict[str, Any]:
        seen.extend(batch["x"])
        return batch

    assert made_by(predict, pa.table({"x": values}))["x"].to_pylist() == values
    assert [each if each is None else each.tolist() for each in seen] == values


def as_objects(values: list[Any]) -> np.ndarray:
    made = np.empty(len(values), object)
    made[:] = values
    return made


NOTHING, CATS = np.array([]), np.array(["cat", "cat"])


@pytest.mark.parametrize(
    "labels",
    [
        [CATS, NOTHING],
        [NOTHING, CATS],
        [CATS, []],
        [NOTHING, NOTHING],
        [NOTHING, np.array([7, 8])],
        [np.array([True, False]), NOTHING],
        [np.array([1.5]), np.array([1, 2], np.float32)],
        [np.empty((0, 4), np.float32), np.ones((2, 4), np.float32)],
        [np.empty((0, 4), np.float32), np.empty((0, 4), np.float32)],
        [np.array([b"a\0b"]), NOTHING],
    ],
    ids=str,
)
@pytest.mark.parametrize("rows_at_a_time", [1, 2])
@pytest.mark.parametrize("held_in", [list, as_objects])
def test_a_picture_in_which_nothing_is_found_has_no_labels(
    labels: list[Any], rows_at_a_time: int, held_in: Callable[[list[Any]], Any]
) -> None:
    """NumPy has nothing as fractions, beside which Arrow takes no words; nor lists of no size."""

    def predict(batch: dict[str, Any]) -> dict[str, Any]:
        return {"made": held_in([labels[at] for at in batch["x"]])}

    pace = Pace.fixed(rows_at_a_time)
    stage = StageAdapter("infer", (partial(made_by, predict),), pace, cuts_itself=False)
    rows = pa.table({ROW: pa.array(range(2), pa.int64()), "x": range(2)})
    (done,) = stage(RowBatch(rows=rows, sources={0: "/in/a.csv"}))
    assert done.rejected == ()
    made = columns.column_to_numpy(done.rows["made"])
    assert [each.tolist() for each in made] == [np.asarray(each).tolist() for each in labels]


@pytest.mark.parametrize("labels", [[CATS, NOTHING], [NOTHING, CATS], [None, NOTHING, CATS]])
def test_a_frames_pictures_may_have_no_labels(labels: list[Any]) -> None:
    rows = pa.table({"x": range(len(labels))})
    found = made_by(lambda _: pd.DataFrame({"made": pd.Series(labels)}), rows)["made"]
    assert found.to_pylist() == [None if each is None else each.tolist() for each in labels]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([{"labels": CATS}, {"labels": NOTHING}], [{"labels": ["cat", "cat"]}, {"labels": []}]),
        ([{"at": NOTHING}, {"at": np.array([1.5], np.float32)}], [{"at": []}, {"at": [1.5]}]),
        ([[CATS, NOTHING], []], [[["cat", "cat"], []], []]),
    ],
)
@pytest.mark.parametrize("rows_at_a_time", [1, 2])
@pytest.mark.parametrize("held_in", [list, as_objects])
def test_nor_need_what_is_found_within_a_row(
    values: list[Any],
    found: list[Any],
    rows_at_a_time: int,
    held_in: Callable[[list[Any]], Any],
) -> None:
    def predict(batch: dict[str, Any]) -> dict[str, Any]:
        return {"made": held_in([values[at] for at in batch["x"]])}

    pace = Pace.fixed(rows_at_a_time)
    stage = StageAdapter("infer", (partial(made_by, predict),), pace, cuts_itself=False)
    rows = pa.table({ROW: pa.array(range(2), pa.int64()), "x": range(2)})
    (done,) = stage(RowBatch(rows=rows, sources={0: "/in/a.csv"}))
    assert done.rows["made"].to_pylist() == found


@pytest.mark.parametrize("missing", [None, np.datetime64("NaT")])
def test_a_day_may_be_missing_beside_others_and_alone(missing: Any) -> None:
    days, rows = [np.datetime64("2026-01-31"), missing], pa.table({"x": [1, 2]})
    made = made_by(lambda _: {"made": days}, rows)["made"]
    assert (made.type, made.to_pylist()) == (pa.date32(), [date(2026, 1, 31), None])
    assert made_by(lambda _: {"made": [missing]}, rows[:1])["made"].to_pylist() == [None]


def test_masked_values_are_missing_in_arrays_of_rows_too() -> None:
    """NumPy's way to join arrays has what was masked again."""
    rows = [np.ma.masked_equal([[1, 2]], 2), np.ma.masked_equal([[2, 3]], 2)]
    for made in (rows, [*rows, None], [*rows, np.array([[4, 5], [6, 7]])]):
        found = made_by(lambda _, made=made: {"made": made}, pa.table({"x": range(len(made))}))
        expected = [None if each is None else each.tolist() for each in made]
        assert found["made"].to_pylist() == expected
    assert found["made"].to_pylist()[:2] == [[[1, None]], [[None, 3]]]


def test_objects_of_ones_own_are_not_taken_for_tensors_by_their_names() -> None:
    rows = pa.table({"x": [{"data": [1.0, 2.0], "shape": [2], "dtype": "f4"}]})
    made = made_by(lambda batch: {"made": list(batch["x"])}, rows)["made"]
    assert made.to_pylist() == rows["x"].to_pylist()


def test_objects_are_no_tensors() -> None:
    with pytest.raises(UserCodeBroke, match="arrays of several shapes that hold objects"):
        tensor_array([np.array([["a"]], object), None])


def test_arrays_of_empty_arrays_keep_their_type() -> None:
    outer = np.empty(1, object)
    outer[0] = np.empty(0, np.int16)
    rows = pa.table({"x": [1, 2]})
    made = made_by(lambda batch: {"made": [outer, None]}, rows)["made"]
    assert (made.type, made.to_pylist()) == (pa.list_(pa.list_(pa.int16())), [[[]], None])


def test_nothing_for_the_only_row_is_no_value_of_it() -> None:
    rows = pa.table({ROW: pa.array([1], pa.int64()), "x": [1.5]})
    with pytest.raises(
        TypeError, match="'made' has no Arrow type: it is None instead of a value for each"
    ):
        made_by(lambda batch: {"made": None}, rows)


@pytest.mark.parametrize("inside", [False, True])
def test_objects_are_told_by_their_type_the_same_for_each_row(inside: bool) -> None:
    """One reason for all rows, where Arrow shows each picture's place in memory."""
    rows = pa.table({ROW: pa.array([1], pa.int64()), "x": [1.5]})
    pictures = [Image.new("L", (2, 2))]
    message = r"^column 'made' has no Arrow type: it contains Image: return .*asarray\(image\)"
    with pytest.raises(TypeError, match=message):
        made_by(lambda batch: {"made": [pictures] if inside else pictures}, rows)


def test_arrays_of_another_order_of_bytes_may_be_in_dicts() -> None:
    rows = pa.table({ROW: pa.array([1], pa.int64()), "x": [1.5]})
    made = made_by(lambda batch: {"made": [{"a": np.array([1, 2], ">i4")}]}, rows)
    assert made["made"].to_pylist() == [{"a": [1, 2]}]


def made_by(predict: Any, rows: pa.Table) -> pa.Table:
    return user_code.call(predict, rows, "numpy", False)


def mean_of_x(batch: dict[str, Any]) -> dict[str, Any]:
    return {"made": batch["x"].mean()}


@pytest.mark.parametrize(
    "changed",
    ["prepare.py", "shared/__init__.py", "shared/scale.py", "shared/deep/units.py", "lazily.py"],
)
def test_modules_beside_that_are_imported_belong_to_the_code(changed: str, tmp_path: Path) -> None:
    """Else a run would be resumed with other code, and its rows be of both."""
    files = {
        "predictor.py": "import prepare\nfrom shared import scale\n"
        "def f(batch):\n    import lazily\n    return batch\n",
        "prepare.py": "import predictor  # each other\n",
        "shared/__init__.py": "",
        "shared/scale.py": "from .deep.units import metre\n",
        "shared/deep/__init__.py": "",
        "shared/deep/units.py": "metre = 1\n",
        "lazily.py": "import torch\n",
        "shared/other.py": "",
        "another.py": "",
        "broken.py": "def",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    before = user_modules.digest("model.class", "predictor:f")
    for name in ("shared/other.py", "another.py", "broken.py"):
        (tmp_path / name).write_text("changed = True\n")
    assert user_modules.digest("model.class", "predictor:f") == before
    (tmp_path / changed).write_text(files[changed] + "changed = True\n")
    assert user_modules.digest("model.class", "predictor:f") != before


def test_of_a_package_only_what_may_import_something_beside_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository has thousands of modules, and a run asks several times."""
    files = {
        "ours/__init__.py": "",
        "ours/model.py": "from ours.shapes import Square as Model\n",
        "ours/shapes.py": "from . import model\nclass Square: pass\n",
        "ours/helped.py": "import os, apart\n",
        "apart.py": "import ours.model\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    parse = Mock(wraps=ast.parse)
    monkeypatch.setattr(ast, "parse", parse)
    _, own, imported = user_modules.own_files("model.class", "ours.model:Model")
    assert {path.relative_to(tmp_path).as_posix() for path in [*own, *imported]} == set(files)
    parsed = [call.args[0].decode() for call in parse.call_args_list]
    assert parsed == [files["ours/helped.py"], files["apart.py"]]


def test_of_a_package_in_two_folders_the_one_that_holds_the_module_belongs_to_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Ray's workers the folder that a command was called from is on the path, too."""
    for name in ("own/parts/clean.py", "elsewhere/parts/other.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("def f(batch):\n    return batch\n")
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    before = user_modules.digest("model.class", "parts.clean:f")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    assert user_modules.digest("model.class", "parts.clean:f") == before
    (tmp_path / "own/parts/more.py").write_text("")
    assert user_modules.digest("model.class", "parts.clean:f") != before


def test_of_installed_packages_only_its_own_belongs_to_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    monkeypatch.syspath_prepend(str(installed))
    (installed / "bought.py").write_text("import sold\ndef f(batch):\n    return batch\n")
    (installed / "sold.py").write_text("")
    before = user_modules.digest("model.class", "bought:f")
    (installed / "sold.py").write_text("changed = True\n")
    assert user_modules.digest("model.class", "bought:f") == before


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (".brought:Adds", 'must be "module:name"'),
        ("brought:Adds:", 'must be "module:name"'),
        ("brought.Adds", 'must be "module:name"; did you mean brought:Adds\\?'),
        ("./packed/code.py:f", 'must be "module:name"; did you mean packed.code:f\\?'),
        ("brought.py:Adds", "needs the module .*; did you mean brought:Adds\\?"),
        ("helpd:f", "needs the module 'helpd'.*; did you mean helped\\?"),
        (
            "helped:f",
            "part of a package, .* 'from .absent import f' in line 1: .* here too: .*.helped:f",
        ),
        ("__main__:Adds", "is in a script or notebook, which no other process can import: put it"),
        ("sys:exit", "is part of Python itself"),
        ("broken.code:f", "is in a package that cannot be imported: .*No module named 'absent'"),
        ("packed.absent:f", "needs the module 'packed.absent', which is not on the Python path"),
        ("nul:f", "does not parse: source code string cannot contain null bytes"),
    ],
)
def test_references_that_lead_nowhere(reference: str, message: str, tmp_path: Path) -> None:
    files = {
        "broken/__init__.py": "import absent\n",
        "broken/code.py": "def f(batch):\n    return batch\n",
        "packed/__init__.py": "",
        "helped.py": "from .absent import f\n",
        "nul.py": "def f(batch):\n    return batch\n\0",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    with pytest.raises(InvalidSpec, match=message):
        user_code.check_reference("model.class", reference)


def test_what_a_module_may_import_of_the_package_around_it(tmp_path: Path) -> None:
    files = {
        "around/__init__.py": "def f(batch):\n    return batch\n",
        "around/code.py": "from . import f\n",
        "around/within/__init__.py": "from .. import f\nfrom . import code\n",
        "around/within/code.py": "from .. import f\n",
        "either.py": "try:\n    from . import f\nexcept ImportError:\n    from around import f\n",
    }
    for each, content in files.items():
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text(content)
    for name in ("around.code", "around.within.code", "around.within", "either"):
        user_code.check_reference("model.class", f"{name}:f")


def test_a_relative_path_of_a_class_is_told_where_it_counts_from(tmp_path: Path) -> None:
    (tmp_path / "opens.py").write_text(
        "class Opens:\n    def __init__(self, path):\n        open(path)\n"
        "    def __call__(self, batch):\n        return batch\n"
    )
    hint = f" in {Path.cwd()}, where relative paths start here: write an absolute path"
    for path, told in (("weights/w.bin", hint), ("/nowhere/w.bin", "")):
        with pytest.raises(FileNotFoundError) as caught:
            user_code.made("model.class", "opens:Opens", {"path": path})
        assert str(caught.value) == f"[Errno 2] No such file or directory{told}: {path!r}"


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbfdef f(batch):\n    pass\n", b"# coding: latin-1\n# \xe4\ndef f(batch): pass\n"],
    ids=["byte order mark", "latin-1"],
)
def test_modules_in_other_encodings(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "encoded.py").write_bytes(content)
    user_code.check_reference("model.class", "encoded:f")


class Cyclic:
    """Garbage that runs Python when it is collected, in the middle of whatever goes on."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(3))


def test_threads_look_at_code_at_once(tmp_path: Path) -> None:
    """As several runs of one process do; of CPython's parser some fail then."""
    (tmp_path / "large.py").write_text(CODE * 20)

    def look(_: int) -> None:
        Cyclic()
        user_code.check_reference("model.class", "large:Adds")
        tree_of(" or ".join(f"x == {number}" for number in range(30)))

    was = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(look, range(40)))
    finally:
        sys.setswitchinterval(was)


def test_runs_of_equal_values_are_written_out() -> None:
    runs = pa.RunEndEncodedArray.from_arrays([2, 5], ["a", None])
    made = made_by(lambda batch: pa.table({"x": runs.slice(1, 3)}), pa.table({"x": [1, 2, 3]}))
    assert (made["x"].type, made["x"].to_pylist()) == (pa.string(), ["a", None, None])
