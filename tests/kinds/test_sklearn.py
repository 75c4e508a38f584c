"""The scikit-learn kind hands rows over as they were in training, and code only on trust."""

import pickle
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import InvalidSpec
from tasks.kinds.models import SklearnModel
from tasks.kinds.models.batch_limit import BatchLimit
from tasks.kinds.models.estimators import calling
from tasks.kinds.models.estimators.code_within import own_names
from tasks.kinds.models.model import Placement
from tasks.spec_file import parse_spec
from tests.kinds.declared import as_declared

RANDOM = np.random.default_rng(5)
FRAME = pd.DataFrame(RANDOM.standard_normal((60, 3)), columns=["a", "b", "c"])
CLASS = (FRAME["a"] > 0).to_numpy()
TEXTS = ["good wine", "bad wine", "good beer", "bad beer"] * 5
Fields = dict[str, Any]


def logistic(data: Any = FRAME, target: Any = CLASS) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(data, target)


def saved(estimator: Any, file: Path, **fields: Any) -> SklearnModel:
    import skops.io

    skops.io.dump(estimator, file)
    model = SklearnModel(path=str(file), **fields)
    model.check()
    return model


def predicted(model: SklearnModel, rows: Any, num_threads: int = 1) -> list[Any]:
    table = pa.Table.from_pandas(rows) if isinstance(rows, pd.DataFrame) else pa.table(rows)
    made = as_declared(model, table, model.predictor(Placement(num_threads=num_threads))(table))
    assert made.column_names == [*table.column_names, "prediction"]
    values: list[Any] = made["prediction"].to_pylist()
    return values


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_every_method_is_the_models_own(tmp_path: Path, method: Any) -> None:
    estimator = logistic()
    model = saved(estimator, tmp_path / "m.skops", method=method)
    expected = getattr(estimator, method)(FRAME)
    assert np.array_equal(predicted(model, FRAME[["c", "a", "b"]]), expected)


def test_no_gpu_is_taken_for_it(tmp_path: Path) -> None:
    model = {"kind": "sklearn", "path": "m.skops"}
    ends: Fields = {
        "source": {"kind": "parquet", "path": "in"},
        "sink": {"kind": "parquet", "path": "out"},
    }
    spec = parse_spec({"name": "scores", "model": model, **ends})
    assert spec.resources.num_gpus == 0
    asked = parse_spec({"name": "s", "model": model, **ends, "resources": {"num_gpus": 1}})
    assert asked.resources.num_gpus == 1, "a class of the estimator's may have a use for it"


@pytest.mark.parametrize(("batch_size", "halvings"), [(25, 0), (50, 1), (None, 1)])
def test_rows_go_in_as_many_at_a_time_as_there_is_room_for(
    tmp_path: Path, batch_size: int | None, halvings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.linear_model import LogisticRegression

    estimator, sizes = logistic(FRAME, ["yes, it is" if each else "no" for each in CLASS]), []
    model = saved(estimator, tmp_path / "m.skops")
    whole = LogisticRegression.predict

    def predict(self: Any, given: Any) -> Any:
        sizes.append(len(given))
        return whole(self, given)

    expected = estimator.predict(FRAME).tolist()
    monkeypatch.setattr(LogisticRegression, "predict", predict)
    placement = Placement(batch_size=batch_size, limit=BatchLimit(halvings))
    rows = model.predictor(placement)(pa.Table.from_pandas(FRAME))
    assert rows["prediction"].to_pylist() == expected
    assert sizes == ([25, 25, 10] if batch_size else [30, 30])


class Telling:
    """Says what it was given of each row, and as what."""

    feature_names_in_ = ("number", "truth", "text")

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        kinds = "/".join(str(each) for each in frame.dtypes)
        return np.array([f"{kinds}: {row}" for row in frame.itertuples(index=False, name=None)])


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.sampled_from([3, 2**53 + 1])),
            st.one_of(st.none(), st.booleans()),
            st.one_of(st.none(), st.just("x")),
        ),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=50, deadline=None)
def test_a_row_is_the_same_whatever_other_rows_lack(values: list[tuple[Any, ...]]) -> None:
    names, kinds = [*Telling.feature_names_in_], [pa.int64(), pa.bool_(), pa.string()]
    columns = [
        pa.array(each, kind) for each, kind in zip(zip(*values, strict=True), kinds, strict=True)
    ]
    rows, telling = pa.table(columns, names=names), Telling()
    together = calling.predicted(telling.predict, telling, rows, names)
    for at, (number, truth, _) in enumerate(values):
        alone = calling.predicted(telling.predict, telling, rows.slice(at, 1), names)
        assert [together[at]] == alone.tolist()
        whole = number is not None and truth is not None
        assert together[at].startswith("int64/bool/" if whole else "float64/object/")


@pytest.mark.parametrize("how", ["by name", "by attribute"])
def test_code_that_looks_for_a_frame_and_gets_none_is_told_of(how: str) -> None:
    """As that of a pipeline's first step, which does not say what it was trained on."""

    def total(frame: Any) -> np.ndarray:
        return np.asarray(frame["a"] + frame["b"] if how == "by name" else frame.a + frame.b)

    rows, first = pa.table({"a": [1.0, 2.0], "b": [3.0, 5.0]}), SimpleNamespace()
    call = calling.naming_frames(total, first, ["a", "b"])
    message = (
        r"model.columns: \['a', 'b'\] go to the model as an array, .* set feature_names_in_ of"
    )
    with pytest.raises(InvalidSpec, match=message):
        calling.predicted(call, first, rows, ["a", "b"])
    first.feature_names_in_ = ["a", "b"]
    assert calling.predicted(call, first, rows, ["a", "b"]).tolist() == [4.0, 7.0]
    call = calling.naming_frames(lambda given: given.toarray(), SimpleNamespace(), ["a", "b"])
    with pytest.raises(AttributeError, match=r"no attribute 'toarray'$"):  # nor has a frame
        calling.predicted(call, SimpleNamespace(), rows, ["a", "b"])


def test_a_transformer_and_its_sparse_matrix(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    estimator = TfidfVectorizer().fit(TEXTS)
    model = saved(estimator, tmp_path / "m.skops", method="transform", columns=["text"])
    expected = estimator.transform(TEXTS).toarray()
    np.testing.assert_allclose(predicted(model, {"text": TEXTS}), expected)
    with pytest.raises(ValueError, match="'text' is empty in this row"):
        predicted(model, {"text": ["good", None]})


def test_labels_that_are_texts_come_back_as_texts(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    estimator = make_pipeline(CountVectorizer(), MultinomialNB())
    estimator.fit(TEXTS, [text.split()[0] for text in TEXTS])
    model = saved(estimator, tmp_path / "m.skops", columns=["text"])
    assert predicted(model, {"text": ["bad cider", "good cider"]}) == ["bad", "good"]


def test_a_model_without_names_takes_numbers_or_vectors(tmp_path: Path) -> None:
    estimator = logistic(FRAME.to_numpy())
    expected = estimator.predict(FRAME.to_numpy()).tolist()
    several = saved(estimator, tmp_path / "m.skops", columns=["a", "b", "c"])
    assert predicted(several, FRAME) == expected
    one = saved(estimator, tmp_path / "m.skops", columns=["embedding"])
    assert predicted(one, {"embedding": FRAME.to_numpy().tolist()}) == expected
    arrays = np.ascontiguousarray(FRAME.to_numpy(np.float64)[:, :, None])
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(arrays)
    assert predicted(one, {"embedding": tensors}) == expected
    with pytest.raises(InvalidSpec, match="must list the input columns"):
        predicted(saved(estimator, tmp_path / "m.skops"), FRAME)
    with pytest.raises(InvalidSpec, match=r"'b' is .*string, not numbers"):
        predicted(several, FRAME.assign(b="x"))


def without_negatives(x: Any) -> Any:
    x[x < 0] = 0
    return x


def test_a_step_of_ones_own_may_write_to_vectors(tmp_path: Path) -> None:
    """As it did in training: what the column has in memory nobody may write to."""
    import joblib
    from sklearn.preprocessing import FunctionTransformer

    given = FRAME.to_numpy()
    file = tmp_path / "m.joblib"
    joblib.dump(FunctionTransformer(without_negatives).fit(given), file)
    named = [f"{__name__}.without_negatives"]
    fields: Fields = {"method": "transform", "trust_pickle": True, "trusted": named}
    model = SklearnModel(path=str(file), columns=["v"], **fields)
    rows = {"v": pa.FixedSizeListArray.from_arrays(pa.array(given.ravel()), 3)}
    assert predicted(model, rows) == given.clip(0).tolist()
    assert rows["v"].to_pylist() == given.tolist()


def test_a_model_with_names_takes_as_many(tmp_path: Path) -> None:
    model = saved(logistic(), tmp_path / "m.skops", columns=["x", "y", "z"])
    renamed = FRAME.rename(columns=dict(zip("abc", "xyz", strict=True)))
    assert predicted(model, renamed) == logistic().predict(FRAME).tolist()
    with pytest.raises(InvalidSpec, match="names 1 column, but the model reads a, b, c"):
        predicted(saved(logistic(), tmp_path / "m.skops", columns=["a"]), FRAME)
    with pytest.raises(InvalidSpec, match=r"have 'b' where the model reads 'a': its order is a, b"):
        predicted(saved(logistic(), tmp_path / "m.skops", columns=["b", "a", "c"]), FRAME)
    with pytest.raises(InvalidSpec, match="'c' is not among the columns"):
        predicted(saved(logistic(), tmp_path / "m.skops"), FRAME[["a", "b"]])


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"method": "transform"}, "model.method: 'transform' needs transform, which Log"),
        ({"method": "transform", "labels": ["n", "y"]}, "transform returns none"),
        ({"labels": ["one", "two", "three"]}, "names 3 labels, and the model gives 2 scores"),
    ],
)
def test_what_does_not_go_together_is_said(tmp_path: Path, fields: Fields, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem):
        predicted(saved(logistic(), tmp_path / "m.skops", **fields), FRAME)


def test_the_models_own_classes_stand_in_its_order(tmp_path: Path) -> None:
    estimator = logistic(FRAME, ["yes" if each else "no" for each in CLASS])
    model = saved(estimator, tmp_path / "m.skops", labels=["yes", "no"])
    with pytest.raises(InvalidSpec, match=r"another order: write \['no', 'yes'\]"):
        predicted(model, FRAME)
    right = saved(estimator, tmp_path / "m.skops", labels=["no", "yes"])
    table = pa.Table.from_pandas(FRAME)
    made = as_declared(right, table, right.predictor(Placement())(table))
    assert made["predicted_label"].to_pylist() == estimator.predict(FRAME).tolist()


def test_labels_need_probabilities(tmp_path: Path) -> None:
    from sklearn.svm import LinearSVC

    machine = LinearSVC().fit(FRAME, CLASS)
    with pytest.raises(InvalidSpec, match="predict_proba, which LinearSVC does not have"):
        predicted(saved(machine, tmp_path / "m.skops", labels=["n", "y"]), FRAME)


def test_types_are_trusted_by_name_before_any_is_imported(tmp_path: Path) -> None:
    from sklearn.preprocessing import FunctionTransformer

    (tmp_path / "untold.py").write_text("def twice(x):\n    return 2 * x\n")
    with pytest.MonkeyPatch.context() as path:
        path.syspath_prepend(str(tmp_path))
        import untold  # type: ignore[import-not-found]

        estimator = FunctionTransformer(untold.twice).fit(FRAME)
        fields: Fields = {"method": "transform"}
        with pytest.raises(InvalidSpec, match=r"model.trusted: \[\] .* add untold.twice, if you"):
            saved(estimator, tmp_path / "m.skops", **fields)
        del sys.modules["untold"]
        with pytest.raises(InvalidSpec, match=r"untold\.twice"):
            SklearnModel(path=str(tmp_path / "m.skops"), **fields).check()
        assert "untold" not in sys.modules
        model = SklearnModel(path=str(tmp_path / "m.skops"), trusted=["untold.twice"], **fields)
        model.check()
        np.testing.assert_allclose(predicted(model, FRAME), 2 * FRAME)
    sys.modules.pop("untold", None)


@pytest.mark.parametrize("ending", ["skops", "joblib"])
def test_code_of_ones_own_in_a_file_counts_where_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    import joblib
    import skops.io
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    monkeypatch.syspath_prepend(str(tmp_path))
    code = tmp_path / f"scales_{ending}.py"
    code.write_text("def twice(x):\n    return 2 * x\n")
    scales = pytest.importorskip(code.stem)
    inner = ColumnTransformer([("all", FunctionTransformer(scales.twice), ["a", "b", "c"])])
    file = tmp_path / f"m.{ending}"
    (skops.io.dump if ending == "skops" else joblib.dump)(make_pipeline(inner).fit(FRAME), file)
    fields: Fields = {"path": str(file), "method": "transform", "trust_pickle": True}
    with pytest.raises(InvalidSpec, match=rf"model\.trusted: \[\] .* add {code.stem}\.twice, "):
        predicted(SklearnModel(**fields), FRAME)
    assert SklearnModel(**fields, trusted=["sklearn.tree._tree.Tree"]).code_digest() == ""
    model = SklearnModel(**fields, trusted=[f"{code.stem}.twice"])
    np.testing.assert_allclose(predicted(model, FRAME), 2 * FRAME)
    before = model.code_digest()
    code.write_text("def twice(x):\n    return 2.5 * x\n")
    assert model.code_digest() != before != ""


def test_own_code_is_seen_behind_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a lock that an estimator makes when it is read, and leaves out when it is written."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "behind_locks.py").write_text("def twice(x):\n    return 2 * x\n")
    own = pytest.importorskip("behind_locks")
    scaler = StandardScaler()
    scaler.lock_ = threading.Lock()
    found = own_names(make_pipeline(scaler, FunctionTransformer(own.twice)))
    assert found == ["behind_locks.twice"]


@pytest.mark.parametrize("ending", ["joblib", "pkl"])
def test_a_pickle_is_not_opened_on_its_own_word(tmp_path: Path, ending: str) -> None:
    import joblib

    file = tmp_path / f"m.{ending}"
    joblib.dump(logistic(), file)
    with pytest.raises(InvalidSpec, match=r"may run any code .* skops\.io\.dump.*trust_pickle"):
        SklearnModel(path=str(file)).check()
    with pytest.raises(InvalidSpec, match="may run any code"):
        predicted(SklearnModel(path=str(file)), FRAME)
    model = SklearnModel(path=str(file), trust_pickle=True)
    model.check()
    assert predicted(model, FRAME) == logistic().predict(FRAME).tolist()


def test_no_skops_file(tmp_path: Path) -> None:
    (tmp_path / "m.skops").write_text("no model")
    with pytest.raises(InvalidSpec, match="cannot be read by skops: File is not a zip file"):
        SklearnModel(path=str(tmp_path / "m.skops")).check()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "m.pkl' cannot be read with scikit-learn .*: EOFError"),
        (b"hello", "cannot be read with scikit-learn .*Check that the file is complete"),
        (pickle.dumps({"a": 1}), "contains dict, not a scikit-learn estimator"),
    ],
)
def test_no_estimator_in_a_pickle(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m.pkl").write_bytes(content)
    model = SklearnModel(path=str(tmp_path / "m.pkl"), trust_pickle=True, columns=["a"])
    with pytest.raises(InvalidSpec, match=message):
        model.predictor(Placement())


def test_a_replica_takes_the_threads_it_was_given(tmp_path: Path) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    from tasks.kinds.models.estimators.calling import limit_threads

    greedy = KNeighborsClassifier(algorithm="brute", n_jobs=-1).fit(FRAME, CLASS)
    limit_threads(greedy, 2)
    assert greedy.n_jobs == 2
    assert predicted(saved(greedy, tmp_path / "m.skops"), FRAME) == greedy.predict(FRAME).tolist()


def test_libraries_are_looked_for_as_modules_are_loaded_and_bound_in_each_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where each call fails."""
    import threadpoolctl

    looked: list[Any] = []

    class Counted(threadpoolctl.ThreadpoolController):
        def __init__(self) -> None:
            looked.append(self)
            super().__init__()

    def bounds() -> set[int]:
        return {each["num_threads"] for each in threadpoolctl.threadpool_info()}

    logistic()  # what it computes with is loaded
    before = bounds()
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Counted)
    threads = calling.Threads(1)
    for _ in range(5):
        with suppress(ValueError), threads.limited():
            found = {each["num_threads"] for each in looked[0].info()}
            raise ValueError("contains NaN")
        assert found == {1}
    assert len(looked) == 1
    assert bounds() == before
    monkeypatch.setitem(sys.modules, "more_libraries", sys)  # as code that imports in its call
    with threads.limited():
        assert {each["num_threads"] for each in looked[-1].info()} == {1}
    assert threads.libraries is looked[-1] is not looked[0]
