"""What a Hugging Face model calculates with, and what becomes of its last layer."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.kinds.models.model import Placement
from tasks.kinds.models.torch_threads import torch_threads
from tasks.ray_job.blame import call_with_blame
from tests.kinds import tiny_models
from tests.kinds.tiny_models import images, png, predicted, rows_of

TOLERANCE = 2e-5


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


def stock(folder: Path, auto_class: str) -> Any:
    import transformers

    return getattr(transformers, auto_class).from_pretrained(folder)


def vectors(rows: pa.Table) -> np.ndarray:
    return np.stack(rows["embedding"].to_pylist())


@pytest.mark.parametrize("task", ["text-classification", "feature-extraction"])
def test_numbers_that_overflow_are_never_published(tmp_path: Path, task: str) -> None:
    import torch

    model = tiny_models.save_bert(tmp_path)
    with torch.no_grad():  # as float16 may make of the letter's own layer
        model.bert.embeddings.word_embeddings.weight[tiny_models.VOCABULARY["t"]] = torch.inf
    tiny_models.saved(model, tmp_path)
    predict = partial(predicted, tmp_path, task)
    good = predict(rows_of("text", ["a b", "c"]))
    with pytest.raises(ValueError, match=r"gave no numbers for this row.* set resources\.dtype"):
        predict(rows_of("text", ["a b", "c", "t a"]))
    outcome = call_with_blame(predict, rows_of("text", ["a b", "c", "t a"]))
    assert [*outcome.failed] == [9]
    assert outcome.rows is not None
    name = outcome.rows.column_names[-1]
    np.testing.assert_allclose(
        outcome.rows[name].to_pylist(), good[name].to_pylist(), atol=TOLERANCE
    )


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"do_sample": True}])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_text_is_written_by_what_is_no_number(
    tmp_path: Path, options: dict[str, Any], value: float
) -> None:
    import torch

    model = tiny_models.save_gpt2(tmp_path)
    with torch.no_grad():  # as float16 may make of a place that long prompts alone have
        model.transformer.wpe.weight[20] = value
    tiny_models.saved(model, tmp_path)

    def predict(rows: pa.Table) -> pa.Table:
        return predicted(tmp_path, "text-generation", rows, max_new_tokens=4, **options)

    rows = rows_of("prompt", ["a b", "c " * 21, "d"])
    outcome = call_with_blame(predict, rows)
    assert [*outcome.failed] == [8]
    assert "gave no numbers for this row" in str(outcome.failed[8])
    assert outcome.rows is not None
    assert outcome.rows.equals(predict(rows.take([0, 2])))


def test_auto_takes_no_bfloat16_that_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from tasks.kinds.models.hf.checkpoint import torch_dtype

    def of_a_t4(including_emulation: bool = True) -> bool:
        return including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", of_a_t4)
    assert torch_dtype(Placement("cuda")) == torch.float16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    assert torch_dtype(Placement("cuda")) == torch.bfloat16


@pytest.mark.parametrize("pooling", ["auto", "mean"])
def test_a_convolutional_models_own_embedding(tmp_path: Path, pooling: str) -> None:
    import torch

    tiny_models.save_convnext(tmp_path)
    pictures = images(4)
    rows = rows_of("image", [png(each) for each in pictures])
    found = vectors(predicted(tmp_path, "image-feature-extraction", rows, pooling=pooling))
    processor, model = stock(tmp_path, "AutoImageProcessor"), stock(tmp_path, "AutoModel")
    for picture, vector in zip(pictures, found, strict=True):
        with torch.inference_mode():
            out = model(**processor(images=picture, return_tensors="pt"))
        mean = out.last_hidden_state.mean((2, 3))
        own, other = (out.pooler_output, mean) if pooling == "auto" else (mean, out.pooler_output)
        np.testing.assert_allclose(vector, own[0].numpy(), atol=TOLERANCE)
        assert np.abs(vector - other[0].numpy()).max() > 0.05


def test_models_that_count_places_from_padding_on_have_fewer(tmp_path: Path) -> None:
    from transformers import XmodConfig, XmodModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = XmodConfig(
        **sizes,
        vocab_size=len(tiny_models.VOCABULARY),
        max_position_embeddings=20,
        pad_token_id=0,
        languages=("en_XX",),
        default_language="en_XX",
    )
    tiny_models.saved(XmodModel(config), tmp_path)
    tiny_models.tokenizer(with_pairs=True).save_pretrained(tmp_path)
    longest = predicted(tmp_path, "feature-extraction", rows_of("text", ["a " * 17, "a " * 90]))
    at_the_limit, cut_off = vectors(longest)
    np.testing.assert_allclose(at_the_limit, cut_off, atol=TOLERANCE)
