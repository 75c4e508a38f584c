"""The Hugging Face kind gives what transformers gives, one row at a time and without our code."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import InvalidSpec
from tasks.kinds.models.torch_threads import torch_threads
from tasks.kinds.tensors import tensor_array
from tasks.protocol.batch import ROW
from tests.kinds import tiny_models
from tests.kinds.tiny_models import images, png, predicted, rows_of, texts

TOLERANCE = 2e-5
SLOW_START = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """For models this small more threads only wait for each other."""
    with torch_threads(1):
        yield


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder for each tiny model."""
    base = tmp_path_factory.mktemp("models")
    tiny_models.save_vit(base / "vit")
    tiny_models.save_bert(base / "bert")
    tiny_models.save_gpt2(base / "gpt2")
    return {name: base / name for name in ("vit", "bert", "gpt2")}


def stock(folder: Path, auto_class: str) -> Any:
    import transformers

    return getattr(transformers, auto_class).from_pretrained(folder)


def vectors(rows: pa.Table) -> np.ndarray:
    return np.stack(rows["embedding"].to_pylist())


def test_image_classification_is_the_models(folders: dict[str, Path]) -> None:
    import torch

    pictures = images(40)
    found = predicted(
        folders["vit"], "image-classification", rows_of("image", [png(p) for p in pictures])
    )
    processor = stock(folders["vit"], "AutoImageProcessor")
    model = stock(folders["vit"], "AutoModelForImageClassification")
    for picture, label, score in zip(
        pictures,
        found["predicted_label"].to_pylist(),
        found["predicted_score"].to_pylist(),
        strict=True,
    ):
        with torch.inference_mode():
            inputs = processor(images=picture, return_tensors="pt")
            best = model(**inputs).logits.softmax(-1)[0].max(0)
        # One grey level in some pixels moves a score a little.
        assert score == pytest.approx(best.values.item(), abs=0.02)
        if best.values > 0.52:
            assert label == model.config.id2label[best.indices.item()]


def test_top_k_gives_lists_best_first(folders: dict[str, Path]) -> None:
    rows = rows_of("image", [png(p) for p in images(5)])
    one = predicted(folders["vit"], "image-classification", rows)
    three = predicted(folders["vit"], "image-classification", rows, top_k=3)
    many = predicted(folders["vit"], "image-classification", rows, top_k=9)
    labels, scores = three["predicted_label"].to_pylist(), three["predicted_score"].to_pylist()
    assert [each[0] for each in labels] == one["predicted_label"].to_pylist()
    assert [each[0] for each in scores] == one["predicted_score"].to_pylist()
    assert all(each == sorted(each, reverse=True) and len(each) == 3 for each in scores)
    assert {len(each) for each in many["predicted_label"].to_pylist()} == {4}
    assert one.schema.field("predicted_score").type == pa.float32()


def test_image_embedding_of_a_vit_is_its_first_token(folders: dict[str, Path]) -> None:
    import torch

    pictures = images(5)
    rows = rows_of("image", [png(p) for p in pictures])
    found = predicted(folders["vit"], "image-feature-extraction", rows)
    processor = stock(folders["vit"], "AutoImageProcessor")
    model = stock(folders["vit"], "AutoModelForImageClassification").vit
    for picture, vector in zip(pictures, vectors(found), strict=True):
        with torch.inference_mode():
            inputs = processor(images=picture, return_tensors="pt")
            wanted = model(**inputs).last_hidden_state[0, 0]
        assert np.abs(vector - wanted.numpy()).max() < 0.2  # hidden values reach 3


def test_text_classification_is_the_models(folders: dict[str, Path]) -> None:
    import torch

    lines = texts(60)
    found = predicted(folders["bert"], "text-classification", rows_of("text", lines))
    tokenizer = stock(folders["bert"], "AutoTokenizer")
    model = stock(folders["bert"], "AutoModelForSequenceClassification")
    with torch.inference_mode():
        each = [model(**tokenizer(t, return_tensors="pt", truncation=True)).logits for t in lines]
    best = torch.cat(each).softmax(-1).max(-1)
    scores = found["predicted_score"].to_numpy()
    np.testing.assert_allclose(scores, best.values.numpy(), atol=TOLERANCE)
    wanted = [model.config.id2label[i] for i in best.indices.tolist()]
    assert found["predicted_label"].to_pylist() == wanted


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalize", [True, False])
def test_text_embeddings_are_the_models(
    folders: dict[str, Path], pooling: str, normalize: bool
) -> None:
    import torch

    lines = texts(30)
    rows = rows_of("text", lines)
    found = predicted(
        folders["bert"], "feature-extraction", rows, pooling=pooling, normalize=normalize
    )
    assert found.schema.field("embedding").type == pa.list_(pa.float32(), 32)
    tokenizer = stock(folders["bert"], "AutoTokenizer")
    model = stock(folders["bert"], "AutoModelForSequenceClassification").bert
    for line, vector in zip(lines, vectors(found), strict=True):
        with torch.inference_mode():
            inputs = tokenizer(line, return_tensors="pt", truncation=True)
            hidden = model(**inputs).last_hidden_state[0]
        wanted = (hidden.mean(0) if pooling == "mean" else hidden[0]).numpy()
        if normalize:
            wanted = wanted / np.linalg.norm(wanted)
        np.testing.assert_allclose(vector, wanted, atol=TOLERANCE)


def test_greedy_generation_is_the_models(folders: dict[str, Path]) -> None:
    prompts = texts(40, longest=40)
    found = predicted(
        folders["gpt2"], "text-generation", rows_of("prompt", prompts), max_new_tokens=8
    )
    tokenizer = stock(folders["gpt2"], "AutoTokenizer")
    model = stock(folders["gpt2"], "AutoModelForCausalLM")
    wanted = []
    for prompt in prompts:
        inputs = tokenizer(prompt, return_tensors="pt")
        out = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            max_new_tokens=8,
            do_sample=False,
            pad_token_id=3,
        )
        new = out[0, inputs["input_ids"].shape[1] :]
        wanted.append(tokenizer.decode(new, skip_special_tokens=True))
    assert found["generated_text"].to_pylist() == wanted
    assert len(set(wanted)) > 20  # else the comparison would say little


TASKS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("vit", "image-classification", "image", {"top_k": 4}),
    ("vit", "image-feature-extraction", "image", {}),
    ("bert", "text-classification", "text", {"top_k": 3}),
    ("bert", "feature-extraction", "text", {"normalize": True}),
    ("gpt2", "text-generation", "prompt", {"max_new_tokens": 6, "max_length": 40}),
    (
        "gpt2",
        "text-generation",
        "prompt",
        {"max_new_tokens": 6, "max_length": 40, "do_sample": True, "seed": 3},
    ),
]


@SLOW_START
@given(
    which=st.sampled_from(TASKS),
    order=st.permutations(range(15)),
    count=st.integers(1, 15),
    batch_size=st.one_of(st.none(), st.integers(1, 20)),
)
def test_a_rows_prediction_does_not_depend_on_the_rows_beside_it(
    folders: dict[str, Path],
    which: tuple[str, str, str, dict[str, Any]],
    order: list[int],
    count: int,
    batch_size: int | None,
) -> None:
    name, task, column, options = which
    values = [png(p) for p in images(15)] if column == "image" else texts(15)
    rows = rows_of(column, values)
    all_rows = predicted(folders[name], task, rows, **options)
    some = predicted(folders[name], task, rows.take(order[:count]), batch_size, **options)
    assert some[ROW].to_pylist() == rows[ROW].take(order[:count]).to_pylist()
    assert_alike(all_rows.take(order[:count]), some)


def assert_alike(expected: pa.Table, given: pa.Table) -> None:
    assert given.schema == expected.schema
    for name in expected.column_names:
        a, b = expected[name].to_pylist(), given[name].to_pylist()
        if name in ("embedding", "predicted_score"):
            np.testing.assert_allclose(np.array(a), np.array(b), atol=TOLERANCE)
        else:
            assert a == b


def test_rows_with_the_same_prompt_get_different_draws(folders: dict[str, Path]) -> None:
    rows = rows_of("prompt", ["a b c"] * 20)
    options: dict[str, Any] = {"do_sample": True, "max_new_tokens": 8}
    drawn = predicted(folders["gpt2"], "text-generation", rows, **options, seed=1)
    other = predicted(folders["gpt2"], "text-generation", rows, **options, seed=2)
    assert len(set(drawn["generated_text"].to_pylist())) > 5
    assert drawn["generated_text"] != other["generated_text"]


def test_children_of_one_row_get_different_draws(folders: dict[str, Path]) -> None:
    ids, prompts = [7] * 20 + [8], ["a b c"] * 21
    rows = pa.table({ROW: pa.array(ids, pa.int64()), "prompt": prompts})
    options: dict[str, Any] = {"do_sample": True, "max_new_tokens": 8, "seed": 1}
    drawn = [
        predicted(folders["gpt2"], "text-generation", rows, size, **options)["generated_text"]
        for size in (None, 1, 6)
    ]
    assert len(set(drawn[0].to_pylist()[:20])) > 5
    assert drawn[0] == drawn[1] == drawn[2]
    alone = predicted(folders["gpt2"], "text-generation", rows.take([0, 20]), **options)
    assert alone["generated_text"].to_pylist() == drawn[0].take([0, 20]).to_pylist()


@pytest.mark.parametrize("which", TASKS[:5])
def test_no_rows_give_the_same_columns(
    folders: dict[str, Path], which: tuple[str, str, str, dict[str, Any]]
) -> None:
    name, task, column, options = which
    rows = rows_of(column, [png(images(1)[0])] if column == "image" else ["a b"])
    some = predicted(folders[name], task, rows, **options)
    assert predicted(folders[name], task, rows[:0], **options).schema == some.schema


@pytest.mark.parametrize(
    ("name", "task", "rows"),
    [
        ("vit", "image-classification", rows_of("image", pa.array([None], pa.binary()))),
        ("bert", "text-classification", rows_of("text", [None])),
        ("gpt2", "text-generation", rows_of("prompt", [""])),
        ("gpt2", "feature-extraction", rows_of("text", ["a b", ""])),
    ],
)
def test_a_row_without_input_is_an_error(
    folders: dict[str, Path], name: str, task: str, rows: pa.Table
) -> None:
    options = {"max_new_tokens": 4} if task == "text-generation" else {}
    with pytest.raises(ValueError, match=rf"{rows.column_names[1]}.*empty"):
        predicted(folders[name], task, rows, **options)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_text_padded_on_the_left_stands_where_it_does_alone(
    folders: dict[str, Path], tmp_path: Path, pooling: str
) -> None:
    left = Path(shutil.copytree(folders["gpt2"], tmp_path / "left"))
    config = json.loads((left / "tokenizer_config.json").read_text())
    (left / "tokenizer_config.json").write_text(json.dumps({**config, "padding_side": "left"}))
    assert stock(left, "AutoTokenizer").padding_side == "left"
    rows = rows_of("text", ["c a", "a b c d e f g h", "b"])
    options: dict[str, Any] = {"pooling": pooling, "normalize": False}
    together = vectors(predicted(left, "feature-extraction", rows, **options))
    alone = vectors(predicted(left, "feature-extraction", rows, batch_size=1, **options))
    np.testing.assert_allclose(together, alone, atol=TOLERANCE)
    right = vectors(predicted(folders["gpt2"], "feature-extraction", rows, **options))
    np.testing.assert_allclose(together, right, atol=TOLERANCE)


def test_a_column_of_something_else_is_the_specs_fault(folders: dict[str, Path]) -> None:
    message = r"model.column: 'text' is int64, not text; use another column, or convert it"
    with pytest.raises(InvalidSpec, match=message):
        predicted(folders["bert"], "feature-extraction", rows_of("text", [3]))


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((9, 8), np.uint8),
        np.zeros((9, 8, 4), np.uint8),
        np.zeros((3, 9, 8), np.uint8),
        np.zeros((9, 8, 3), np.float32),
    ],
)
def test_an_array_that_is_no_image_is_an_error(folders: dict[str, Path], pixels: Any) -> None:
    rows = rows_of("image", tensor_array([pixels]))
    shape = re.escape(f"'image' has an array of {pixels.dtype} of shape {pixels.shape}")
    with pytest.raises(ValueError, match=f"{shape}.* uint8 of shape"):
        predicted(folders["vit"], "image-classification", rows)


@pytest.mark.parametrize("values", [["a.jpg"], [3]])
def test_a_column_without_images_is_named(folders: dict[str, Path], values: list[Any]) -> None:
    with pytest.raises(InvalidSpec, match=r"model\.column: 'image' is .* not images"):
        predicted(folders["vit"], "image-classification", rows_of("image", values))


def test_columns_that_do_not_fit_are_named(folders: dict[str, Path]) -> None:
    with pytest.raises(InvalidSpec, match=r"model\.column: 'text' .* \['body'\]"):
        predicted(folders["bert"], "text-classification", rows_of("body", ["a"]))
    rows = rows_of("text", ["a"]).append_column("embedding", pa.array([1]))
    with pytest.raises(InvalidSpec, match="'embedding' is also the name"):
        predicted(folders["bert"], "feature-extraction", rows)
