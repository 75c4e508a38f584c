"""A text gets the same answer whatever texts stand beside it, whichever make the model is of."""

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf import padding
from tasks.kinds.models.hf.text import batches_of_one_length
from tasks.kinds.models.model import Placement
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.tiny_encoders import OF_TYPE, save_encoder
from tests.kinds.tiny_models import VOCABULARY, predicted, rows_of, texts, tokenizer
from tests.kinds.tiny_writers import save_classifying_bart

TOLERANCE = 2e-5
OF_THE_END = ("xlnet",)
"""Types that only classify by what stands last."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


def difference(folder: Path, task: str) -> float:
    """Between texts alone and in batches."""
    rows = rows_of("text", texts(24, longest=40))
    options = {"top_k": 4} if task == "text-classification" else {}
    together, alone = (predicted(folder, task, rows, size, **options) for size in (None, 1))
    name = "predicted_score" if task == "text-classification" else "embedding"
    a, b = np.stack(together[name].to_pylist()), np.stack(alone[name].to_pylist())
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.mark.parametrize("kind", sorted({*OF_TYPE} - {"rwkv"}))
def test_a_text_does_not_depend_on_the_rows_beside_it(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {task: tmp_path / task for task in ("feature-extraction", "text-classification")}
    for task, folder in folders.items():
        save_encoder(folder, kind, task)
        assert difference(folder, task) < TOLERANCE
    monkeypatch.setattr("tasks.kinds.models.hf.joint.reads_padding", lambda model: False)
    padded = max(difference(folder, task) for task, folder in folders.items())
    assert (padded > TOLERANCE) == (kind in (*padding.READS_PADDING, *OF_THE_END))


@pytest.mark.parametrize(
    ("kind", "task"), [("bert", "text-classification"), ("rwkv", "feature-extraction")]
)
def test_a_tokenizer_that_pads_on_the_left_changes_nothing(
    tmp_path: Path, kind: str, task: str
) -> None:
    save_encoder(tmp_path, kind, task)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "padding_side": "left"}))
    assert difference(tmp_path, task) < TOLERANCE


@pytest.mark.parametrize("task", ["text-classification", "feature-extraction"])
def test_a_long_text_does_not_depend_on_a_short_one_before_it(tmp_path: Path, task: str) -> None:
    save_encoder(tmp_path, "big_bird", task)
    options = {"pooling": "cls"} if task == "feature-extraction" else {}
    model = HuggingFaceModel(task=task, name_or_path=str(tmp_path), options=options)
    predict, prepare = model.predictor(Placement()), model.preprocessor()
    long, short = (prepare(rows_of("text", [text])) for text in ("a b c d e " * 12, "a b"))
    first = predict(long)
    predict(short)
    assert predict(long).equals(first)


ENDS = VOCABULARY["[SEP]"]


def ending(folder: Path, pad_token: str | None) -> Any:
    """A tokenizer that ends each text with a token of its own."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    made = tokenizer(with_pairs=False)
    made.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", ENDS)]
    )
    made.pad_token = pad_token
    made.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


NUMBERS = (None, ENDS, VOCABULARY["[PAD]"], VOCABULARY["a"], -1)


@pytest.mark.parametrize("pad_token", [None, "[SEP]", "[PAD]"])
@pytest.mark.parametrize(
    ("kind", "number"),
    [*itertools.product(["gpt2", "llama"], NUMBERS), ("gpt2", len(VOCABULARY))],
)
def test_the_last_token_that_is_no_padding_is_the_models(
    tmp_path: Path, kind: str, pad_token: str | None, number: int | None
) -> None:
    import torch

    model = save_encoder(tmp_path, kind, "text-classification", pad_token_id=number)
    read = ending(tmp_path, pad_token)
    lines = [*texts(12, longest=20), "", "a", "b [SEP]", "b [PAD]"]
    rows = rows_of("text", lines)
    found = predicted(tmp_path, "text-classification", rows, top_k=4)["predicted_score"]
    for line, scores in zip(lines, found.to_pylist(), strict=True):
        inputs = read(line, return_tensors="pt")
        with torch.inference_mode():
            wanted = model(input_ids=inputs["input_ids"]).logits[0].softmax(-1)
        np.testing.assert_allclose(scores, wanted.sort(descending=True).values, atol=TOLERANCE)


def test_an_encoder_decoder_classifies_as_it_does_by_itself(tmp_path: Path) -> None:
    import torch
    from transformers import AutoTokenizer

    model = save_classifying_bart(tmp_path)
    assert padding.reads_padding(model)  # for others do, as T5Gemma's
    read, lines = AutoTokenizer.from_pretrained(tmp_path), texts(24, longest=40)
    rows = rows_of("text", lines)
    found = predicted(tmp_path, "text-classification", rows, top_k=4)
    for line, scores in zip(lines, found["predicted_score"].to_pylist(), strict=True):
        with torch.inference_mode():
            inputs = read(line, return_tensors="pt", return_token_type_ids=False)
            wanted = model(**inputs).logits[0].softmax(-1)
        np.testing.assert_allclose(scores, wanted.sort(descending=True).values, atol=TOLERANCE)
    none = predicted(tmp_path, "text-classification", rows.slice(0, 0), top_k=4)
    assert none.schema == found.schema  # though it wants a text that ends


def test_longrope_is_found_in_parts_and_layers() -> None:
    from transformers import Gemma3Config

    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "rope_theta": 1e4}
    by_layer = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {
            "rope_type": "longrope",
            "original_max_position_embeddings": 24,
            **factors,
        },
    }
    sizes = {"num_hidden_layers": 2, "head_dim": 16, "max_position_embeddings": 64}
    assert padding.longest_padded(Gemma3Config(text_config={**sizes})) == math.inf
    made = Gemma3Config(text_config={**sizes, "rope_parameters": by_layer})
    assert padding.longest_padded(made) == 24


def test_a_batch_of_one_length_is_no_larger_than_another() -> None:
    lengths = np.array([3, 5, 3, 0, 3, 5, 3])
    found = [index.tolist() for index in batches_of_one_length(lengths, None, 9)]
    assert found == [[1], [5], [0, 2, 4], [6], [3]]
    found = [index.tolist() for index in batches_of_one_length(lengths, 2)]
    assert found == [[1, 5], [0, 2], [4, 6], [3]]
