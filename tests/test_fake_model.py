"""A fake model makes what the real ones make, and the same of a row in any batch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.fake_model import FakeModel
from tasks.faked import faked
from tasks.kinds.models import HuggingFaceModel, OnnxModel, PythonModel
from tasks.kinds.models.hf.options import Task
from tasks.kinds.models.hf.task_columns import READ
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tests.kinds import digits
from tests.kinds.maps import maps_of
from tests.kinds.test_onnx import digits_model
from tests.kinds.tiny_clip import save_clip
from tests.kinds.tiny_depths import save_dpt
from tests.kinds.tiny_detectors import save_detr
from tests.kinds.tiny_entities import save_ner
from tests.kinds.tiny_listeners import LISTENERS
from tests.kinds.tiny_models import (
    images,
    png,
    predicted,
    rows_of,
    save_bert,
    save_gpt2,
    save_nli,
    texts,
)
from tests.kinds.tiny_segmenters import save_segformer
from tests.kinds.tiny_speech import sounds

LISTS = st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1, max_size=9)
OUTPUTS = ["predicted_label", "predicted_score", "embedding", "generated_text", "prediction"]
OUTPUTS += ["boxes", "labels", "scores", "entities", "segmentation", "label_ids", "shares"]
OUTPUTS += ["depth", "depth_min", "depth_max"]


@pytest.mark.parametrize(
    ("save", "task", "options", "fake"),
    [
        (save_bert, "text-classification", {}, {}),
        (save_bert, "text-classification", {"top_k": 2}, {"labels": ["a", "b", "c"]}),
        (save_nli, "zero-shot-classification", {"candidate_labels": [*"abc"], "top_k": 2}, {}),
        (save_clip, "zero-shot-image-classification", {"candidate_labels": ["a", "b"]}, {}),
        (save_bert, "feature-extraction", {"normalize": True}, {"width": 32}),
        (save_ner, "token-classification", {}, {}),
        (LISTENERS["wav2vec2"], "audio-classification", {"top_k": 2}, {"labels": [*"abc"]}),
        (save_gpt2, "text-generation", {"max_new_tokens": 4, "max_length": 60}, {}),
        (save_detr, "object-detection", {"threshold": 0.0, "max_detections": 2}, {}),
        (save_segformer, "image-segmentation", {}, {"labels": [*"abcd"]}),
        (save_dpt, "depth-estimation", {}, {}),
    ],
)
def test_the_columns_are_those_of_the_real_model(
    tmp_path: Path, save: Callable[[Path], Any], task: Task, options: Any, fake: dict[str, Any]
) -> None:
    save(tmp_path)
    column = READ[task]
    given = {"image": [*map(png, images(5))], "audio": [each.tolist() for each in sounds(5)]}
    rows = rows_of(column, given.get(column, texts(5)))
    real = predicted(tmp_path, task, rows, **options)
    model = HuggingFaceModel.model_validate(
        {"task": task, "name_or_path": "nobody/nothing", "options": options}
    )
    made = faked(model, **fake).predictor(Placement())(rows)
    outputs = [each for each in real.schema if each.name not in (ROW, column)]
    assert [(each.name, each.type) for each in made.schema] == [
        (each.name, each.type) for each in outputs
    ]
    if options.get("top_k"):
        for scores in made["predicted_score"].to_pylist():
            assert scores == sorted(scores, reverse=True)
            assert sum(scores) <= 1
    if options.get("max_detections"):
        assert [len(boxes) for boxes in made["boxes"].to_pylist()] == [2] * 5
        corners = np.array(made["boxes"].to_pylist())
        assert (corners[..., :2] <= corners[..., 2:]).all()
    if task == "image-segmentation":
        for row, classes in zip(made.to_pylist(), maps_of(made), strict=True):
            assert classes[0, 0] == row["label_ids"][0]
            assert row["labels"] == ["abcd"[at] for at in row["label_ids"]]
    if options.get("normalize"):
        lengths = np.linalg.norm(np.stack(made["embedding"].to_numpy()), axis=1)
        assert np.allclose(lengths, 1)


def test_a_classifier_of_tensors_says_itself_what_it_makes(tmp_path: Path) -> None:
    path = str(digits_model(tmp_path / "digits.onnx"))
    rows = digits.rows_of(pixels=digits.unseen())
    model = OnnxModel(path=path, columns=["pixels"], labels=10, top_k=3)
    real, made = digits.predicted(model, rows), faked(model).predictor(Placement())(rows)
    names = ["predicted_label", "predicted_score"]
    assert made.select(names).schema == real.select(names).schema
    assert set(made["predicted_label"].to_pylist()[0]) <= {*"0123456789"}
    with pytest.raises(InvalidSpec, match="must name the outputs"):
        faked(OnnxModel(path=path, columns=["pixels"]))


@given(LISTS)
def test_a_rows_prediction_does_not_depend_on_its_batch(values: list[int | None]) -> None:
    model = PythonModel(class_="tasks.fake_model:FakeModel", init={"outputs": OUTPUTS})
    predict = model.predictor(Placement())
    rows = rows_of("x", pa.array(values, pa.int64()))
    whole = predict(rows).to_pylist()
    assert whole == [
        row for at in range(len(rows)) for row in predict(rows[at : at + 1]).to_pylist()
    ]
    for at, value in enumerate(values):
        assert whole[at] == whole[values.index(value)]
    assert len({row["generated_text"] for row in whole}) == len(set(values))


def test_what_it_refuses_and_what_it_lacks() -> None:
    fake = FakeModel(["prediction"], column="text", refuses=["bad"])
    with pytest.raises(ValueError, match="the fake model refuses 'bad'"):
        fake({"text": np.array(["good", "bad"], dtype=object)})
    with pytest.raises(UserCodeBroke, match=r"reads \{'text'\}, and the rows have \['x'\]"):
        fake({"x": np.array([1])})
    with pytest.raises(InvalidSpec, match=r"fake.outputs: \['points'\] must be among"):
        faked(PythonModel(class_="a:B"), outputs=["points"])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"labells": ["a"]},
            "fake: 'labells' is no argument of a fake model; did you mean labels?",
        ),
        ({"zzz": 1}, "fake: 'zzz' is no argument of a fake model; there are outputs, column"),
        ({"labels": "good"}, "fake.labels: 'good' must be a list, such as ['good']"),
    ],
)
def test_an_argument_that_a_fake_does_not_take_is_told(
    arguments: dict[str, Any], problem: str
) -> None:
    model = PythonModel(class_="mine:Model")
    with pytest.raises(InvalidSpec) as caught:
        faked(model, outputs=OUTPUTS, **arguments)
    assert str(caught.value).startswith(problem)
