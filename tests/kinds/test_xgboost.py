"""The XGBoost kind reads what was trained, in its order, and predicts what XGBoost predicts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import XGBoostModel, arrays
from tasks.kinds.models.batch_limit import BatchLimit
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame
from tests.kinds.declared import as_declared

RANDOM = np.random.default_rng(5)
FRAME = pd.DataFrame(RANDOM.standard_normal((200, 3)), columns=["a", "b", "c"])
CLASS = (FRAME["a"] + FRAME["b"] > 0).astype(int) + (FRAME["c"] > 1)


def train(data: Any, target: Any, objective: str = "binary:logistic", **parameters: Any) -> Any:
    import xgboost

    matrix = xgboost.DMatrix(data, target, enable_categorical=True)
    return xgboost.train({"objective": objective, "nthread": 1, **parameters}, matrix, 8)


def saved(booster: Any, file: Path, **fields: Any) -> XGBoostModel:
    booster.save_model(file)
    model = XGBoostModel(path=str(file), **fields)
    model.check()
    return model


def predicted(model: XGBoostModel, rows: pd.DataFrame | pa.Table) -> pa.Table:
    table = pa.Table.from_pandas(rows) if isinstance(rows, pd.DataFrame) else rows
    return as_declared(model, table, model.predictor(Placement())(table))


def values(made: pa.Table) -> np.ndarray:
    return np.asarray(made["prediction"].to_pylist(), np.float32)


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_columns_go_by_name_and_not_by_place(tmp_path: Path, ending: str) -> None:
    import xgboost

    booster = train(FRAME, CLASS > 0)
    made = predicted(saved(booster, tmp_path / f"any.{ending}"), FRAME[["c", "a", "b"]])
    assert made.column_names == ["c", "a", "b", "prediction"]
    np.testing.assert_allclose(values(made), booster.predict(xgboost.DMatrix(FRAME)), atol=1e-6)


def test_a_column_that_is_empty_in_all_rows_is_missing_in_all(tmp_path: Path) -> None:
    """Sources make text of it, as of a night's file of which one sensor was away."""
    model = saved(train(FRAME, CLASS > 0), tmp_path / "m.ubj")
    table = pa.Table.from_pandas(FRAME.assign(b=np.nan))
    blank = table.set_column(1, "b", pa.nulls(len(table), pa.string()))
    np.testing.assert_array_equal(values(predicted(model, blank)), values(predicted(model, table)))
    with pytest.raises(InvalidSpec, match="'b' is string, not numbers"):
        predicted(model, table.set_column(1, "b", pa.array(["x"] * len(table))))


@pytest.mark.parametrize("number", [0.0, -999.0, 0.1])
def test_a_number_that_stands_for_a_missing_value_does_so_here(
    tmp_path: Path, number: float
) -> None:
    """The classifier knows which, and its file does not."""
    import xgboost

    frame = FRAME.mask(RANDOM.random(FRAME.shape) < 0.3, number)
    frame.iloc[::7, 0] = np.nan
    trained = xgboost.XGBClassifier(n_estimators=8, missing=number, n_jobs=1)
    trained.fit(frame, CLASS > 0)
    expected = trained.predict_proba(frame)[:, 1]
    told = saved(trained, tmp_path / "m.ubj", missing=number)
    np.testing.assert_allclose(values(predicted(told, frame)), expected, atol=1e-6)
    untold = saved(trained, tmp_path / "m.ubj")
    assert np.abs(values(predicted(untold, frame)) - expected).max() > 0.1


def test_a_model_without_names_is_given_them(tmp_path: Path) -> None:
    import xgboost

    booster = train(FRAME.to_numpy(), CLASS > 0)
    given = saved(booster, tmp_path / "m.ubj", columns=["c", "b", "a"])
    renamed = FRAME.rename(columns={"a": "c", "c": "a"})
    expected = booster.predict(xgboost.DMatrix(FRAME.to_numpy()))
    np.testing.assert_allclose(values(predicted(given, renamed)), expected, atol=1e-6)
    with pytest.raises(InvalidSpec, match="must list the 3 input columns"):
        predicted(saved(booster, tmp_path / "m.ubj"), FRAME)
    with pytest.raises(InvalidSpec, match="names 1 column, but the model reads 3"):
        predicted(saved(booster, tmp_path / "m.ubj", columns=["a"]), FRAME)


def test_names_of_the_models_own_stand_in_its_order(tmp_path: Path) -> None:
    booster = train(FRAME, CLASS > 0)
    with pytest.raises(InvalidSpec, match=r"have 'c' where the model reads 'a': its order is a, b"):
        saved(booster, tmp_path / "m.ubj", columns=["c", "b", "a"])
    renamed = saved(booster, tmp_path / "m.ubj", columns=["a", "y", "c"])
    expected = predicted(saved(booster, tmp_path / "m.ubj"), FRAME)["prediction"]
    assert predicted(renamed, FRAME.rename(columns={"b": "y"}))["prediction"] == expected


@pytest.mark.parametrize(
    ("batch_size", "halvings", "most"), [(None, 0, 200), (64, 0, 64), (None, 2, 50)]
)
def test_rows_go_in_as_many_at_a_time_as_there_is_room_for(
    tmp_path: Path,
    batch_size: int | None,
    halvings: int,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, sizes = saved(train(FRAME, CLASS > 0), tmp_path / "m.ubj"), list[int]()
    expected = predicted(model, FRAME)

    def noting(rows: pa.Table, *given: Any, **more: Any) -> np.ndarray:
        sizes.append(len(rows))
        return arrays.matrix(rows, *given, **more)

    monkeypatch.setattr("tasks.kinds.models.xgboost.matrix", noting)
    placement = Placement(batch_size=batch_size, limit=BatchLimit(halvings))
    assert model.predictor(placement)(pa.Table.from_pandas(FRAME)).equals(expected)
    assert max(sizes) == most
    assert sum(sizes) == len(FRAME)


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
def test_of_several_classes_each_has_its_probability(tmp_path: Path, objective: str) -> None:
    import xgboost

    booster = train(FRAME, CLASS, objective, num_class=3)
    plain = booster.predict(xgboost.DMatrix(FRAME))
    bare = values(predicted(saved(booster, tmp_path / "m.json"), FRAME))
    np.testing.assert_allclose(bare, plain, atol=1e-6)
    made = predicted(saved(booster, tmp_path / "m.json", labels=["no", "one", "both"]), FRAME)
    probabilities = (
        plain
        if plain.ndim == 2
        else train(FRAME, CLASS, "multi:softprob", num_class=3).predict(xgboost.DMatrix(FRAME))
    )
    best = probabilities.argmax(axis=1)
    assert made["predicted_label"].to_pylist() == [["no", "one", "both"][at] for at in best]
    np.testing.assert_allclose(made["predicted_score"], probabilities.max(axis=1), atol=1e-6)


def test_labels_are_as_many_as_classes_of_a_classifier(tmp_path: Path) -> None:
    several = train(FRAME, CLASS, "multi:softprob", num_class=3)
    with pytest.raises(InvalidSpec, match="names 2 labels, but the model knows 3"):
        predicted(saved(several, tmp_path / "m.json", labels=["no", "yes"]), FRAME)
    regression = train(FRAME, CLASS, "reg:squarederror")
    with pytest.raises(InvalidSpec, match=r"need a classifier .* this model is reg:squarederror"):
        predicted(saved(regression, tmp_path / "m.json", labels=["no", "yes"]), FRAME)
    two = saved(train(FRAME, CLASS > 0), tmp_path / "m.json")
    with pytest.raises(InvalidSpec, match=r"model\.labels: .* names 3 labels, .* knows 2"):
        two.model_copy(update={"labels": ["no", "yes", "both"]}).check()


def test_several_targets_are_no_classes_of_one(tmp_path: Path) -> None:
    both = np.stack([CLASS > 0, FRAME["c"] > 0], axis=1).astype(int)
    booster = train(FRAME, both)
    made = predicted(saved(booster, tmp_path / "m.json"), FRAME)
    assert ((values(made) > 0.5) == both).mean() > 0.9
    with pytest.raises(InvalidSpec, match="classes of one target, but the model has 2, each with"):
        saved(booster, tmp_path / "m.json", labels=["likes", "buys"])


def test_a_model_stopped_early_predicts_with_its_best_iteration(tmp_path: Path) -> None:
    import xgboost

    booster = train(FRAME, CLASS > 0)
    booster.set_attr(best_iteration=2)
    made = values(predicted(saved(booster, tmp_path / "m.ubj"), FRAME))
    data = xgboost.DMatrix(FRAME)
    np.testing.assert_allclose(made, booster.predict(data, iteration_range=(0, 3)), atol=1e-6)
    assert np.abs(made - booster.predict(data)).max() > 0.05
    every = values(predicted(saved(booster, tmp_path / "m.ubj", best_iteration=False), FRAME))
    np.testing.assert_allclose(every, booster.predict(data), atol=1e-6)


def test_categories_go_by_name_wherever_they_stand_in_a_batch(tmp_path: Path) -> None:
    import xgboost

    colour = RANDOM.choice(["red", "green", "blue", "grey"], len(FRAME))
    frame = FRAME.assign(colour=pd.Categorical(colour))
    booster = train(frame, np.isin(colour, ["red", "blue"]))
    model = saved(booster, tmp_path / "m.json")
    expected = booster.predict(xgboost.DMatrix(frame, enable_categorical=True))
    texts = pa.table({**FRAME, "colour": pa.array(colour)})
    large = texts.set_column(3, "colour", texts["colour"].cast(pa.large_string()))
    for rows in (texts, large, texts.slice(37, 5), pa.Table.from_pandas(frame)):
        at = slice(37, 42) if len(rows) == 5 else slice(None)
        np.testing.assert_allclose(values(predicted(model, rows)), expected[at], atol=1e-6)
    with pytest.raises(ValueError, match="column 'colour' has 'mauve', which the model was not"):
        predicted(model, frame.assign(colour="mauve"))
    with pytest.raises(ValueError, match=r"has '', which .*: .* source\.null_values lists ''$"):
        predicted(model, frame.assign(colour=""))
    with pytest.raises(InvalidSpec, match=r"'colour' is list.*, but the model was trained on"):
        predicted(model, texts.set_column(3, "colour", pa.array([["red"]] * len(texts))))
    missing = frame.assign(colour=pd.Categorical([None] * len(frame), ["blue"]))
    unknown = booster.predict(xgboost.DMatrix(missing, enable_categorical=True))
    made = predicted(model, frame.assign(colour=pd.Series([None] * len(frame), dtype=str)))
    np.testing.assert_allclose(values(made), unknown, atol=1e-6)


def test_of_categories_that_are_numbers_nan_is_a_missing_one(tmp_path: Path) -> None:
    import xgboost

    zone = RANDOM.choice([10, 20, 30], len(FRAME))
    frame = FRAME.assign(zone=pd.Categorical(zone))
    booster = train(frame, zone == 20)
    model = saved(booster, tmp_path / "m.json")
    missing = frame.assign(zone=pd.Categorical([None] * len(frame), [10, 20, 30]))
    unknown = booster.predict(xgboost.DMatrix(missing, enable_categorical=True))
    rows = pa.table({**FRAME, "zone": pa.array([np.nan] * len(FRAME))})
    np.testing.assert_allclose(values(predicted(model, rows)), unknown, atol=1e-6)

    zones = pa.array([20.0, np.nan, 20.5, 10.0])
    few = pa.table({ROW: [1, 2, 3, 4], **FRAME.head(4), "zone": zones})
    outcome = call_with_blame(model.predictor(Placement()), few)
    assert list(outcome.failed) == [3]
    problem = "column 'zone' has a value which the model was not trained on: Float value 20.5"
    assert problem in str(outcome.failed[3])


def test_a_linear_booster(tmp_path: Path) -> None:
    import xgboost

    booster = train(FRAME, FRAME["a"], "reg:squarederror", booster="gblinear")
    made = values(predicted(saved(booster, tmp_path / "m.json"), FRAME))
    np.testing.assert_allclose(made, booster.predict(xgboost.DMatrix(FRAME)), atol=1e-6)


def test_the_file_in_a_folder(tmp_path: Path) -> None:
    model = XGBoostModel(path=str(tmp_path))
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".metadata.json").touch()
    with pytest.raises(InvalidSpec, match=r"no file ending in \.ubj or \.json.*save_model"):
        model.check()
    (tmp_path / "mine.json").touch()
    assert model.file_name() == "mine.json"
    (tmp_path / "yours.ubj").touch()
    with pytest.raises(InvalidSpec, match=r"contains mine\.json, yours\.ubj: give one of them"):
        model.check()
    (tmp_path / "model.ubj").touch()
    assert model.file_name() == "model.ubj"


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    booster = train(FRAME, CLASS > 0)
    model = saved(booster, tmp_path / "m.json")
    with pytest.raises(InvalidSpec, match=r"'c' is not among the columns \['a', 'b'\]"):
        predicted(model, FRAME[["a", "b"]])
    with pytest.raises(InvalidSpec, match=r"'a' is .*string, not numbers"):
        predicted(model, FRAME.assign(a="x"))
    (tmp_path / "m.json").write_text("no model")
    with pytest.raises(InvalidSpec, match=r"cannot be read by XGBoost .*: .*Invalid model format"):
        predicted(model, FRAME)
    (tmp_path / "old.model").touch()
    with pytest.raises(InvalidSpec, match="save_model"):
        XGBoostModel(path=str(tmp_path / "old.model")).check()
    (tmp_path / "m.json").write_text('{"learner": {')  # XGBoost quotes what it has met, in no UTF-8
    with pytest.raises(InvalidSpec, match=r"m\.json' cannot be read by XGBoost"):
        predicted(model, FRAME)
    with pytest.raises(InvalidSpec, match=r"resources.dtype: 'float16' is not possible"):
        model.predictor(Placement(dtype="float16"))


def test_columns_that_are_no_numbers_are_refused_before_the_job(tmp_path: Path) -> None:
    model = saved(train(FRAME, CLASS > 0), tmp_path / "m.json")
    blank = pa.schema([("a", pa.string()), ("b", pa.decimal128(9, 2)), ("c", pa.bool_())])
    model.refuse_types(blank)
    for kind in (pa.date32(), pa.timestamp("us"), pa.list_(pa.float32()), pa.binary()):
        with pytest.raises(InvalidSpec, match=r"^model.columns: 'b' is .*, not numbers; leave it"):
            model.refuse_types(blank.set(1, pa.field("b", kind)))


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (np.inf, "column 'b' is infinite in this row, which XGBoost does not accept"),
        (-np.inf, "column 'b' is infinite in this row"),
        (1e39, "column 'b' has a number too large for float32"),
    ],
)
def test_infinity_is_no_number_and_nan_a_missing_one(
    tmp_path: Path, bad: float, problem: str
) -> None:
    rows = pa.table({ROW: [7, 8, 9], "a": [0.1, 1, 2], "b": [1, bad, np.nan], "c": [1, None, 3.0]})
    model = saved(train(FRAME, CLASS > 0), tmp_path / "m.ubj")
    outcome = call_with_blame(model.predictor(Placement()), rows)
    assert list(outcome.failed) == [8]
    assert problem in str(outcome.failed[8])
    assert outcome.rows is not None
    assert np.isfinite(values(outcome.rows)).all()


def test_infinity_is_no_prediction(tmp_path: Path) -> None:
    content = json.loads(train(FRAME, CLASS, "count:poisson").save_raw("json"))
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        tree["split_conditions"] = [50.0] * len(tree["split_conditions"])  # and so its leaves
    (tmp_path / "large.json").write_text(json.dumps(content))
    rows = pa.table({ROW: [7, 8], "a": [0.0, np.nan], "b": [0.0, 1], "c": [0.0, 1]})
    predict = XGBoostModel(path=str(tmp_path / "large.json")).predictor(Placement())
    outcome = call_with_blame(predict, rows)
    assert list(outcome.failed) == [7, 8]
    assert "made NaN or infinity, as 'prediction'" in str(outcome.failed[8])
