"""What sentence-transformers' files say of how texts are read is done as that library does it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.tiny_models import predicted, rows_of, save_bert

TOLERANCE = 2e-5
LINES = ["a b c", "d", "e f g h i"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    save_bert(folder)
    return folder


@pytest.fixture
def sentences(bert: Path, tmp_path: Path) -> Path:
    """A model whose files are those of sentence-transformers."""
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    modules = [{"type": f"st.{kind}", "path": f"{kind}"} for kind in ("Transformer", "Pooling")]
    (folder / "modules.json").write_text(json.dumps(modules))
    write(folder, "Pooling/config.json", pooling_mode="mean")
    return folder


def write(folder: Path, name: str, **fields: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(fields))


def embedded(folder: Path, lines: list[str] = LINES, **options: Any) -> np.ndarray:
    found = predicted(folder, "feature-extraction", rows_of("text", lines), **options)
    return np.stack(found["embedding"].to_pylist())


def hidden(folder: Path, line: str) -> np.ndarray:
    """A vector for each token, as transformers gives them for a text alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(folder)(line, return_tensors="pt")
    with torch.inference_mode():
        found = AutoModel.from_pretrained(folder)(**inputs).last_hidden_state[0].numpy()
    return np.asarray(found)


PROMPTS: dict[str, Any] = {"prompts": {"near": "k l ", "far": "m "}, "default_prompt_name": "near"}


def test_the_default_prompt_stands_before_each_text(sentences: Path) -> None:
    plain = embedded(sentences)
    before = HuggingFaceModel(task="feature-extraction", name_or_path=str(sentences)).fingerprint()
    write(sentences, "config_sentence_transformers.json", **PROMPTS)
    own = embedded(sentences)
    wanted = [hidden(sentences, f"k l {line}").mean(0) for line in LINES]
    np.testing.assert_allclose(own, wanted, atol=TOLERANCE)
    np.testing.assert_array_equal(embedded(sentences, prefix=""), plain)
    np.testing.assert_array_equal(
        embedded(sentences, prefix="m "),
        embedded(sentences, [f"m {line}" for line in LINES], prefix=""),
    )
    after = HuggingFaceModel(task="feature-extraction", name_or_path=str(sentences)).fingerprint()
    assert after != before


@pytest.mark.parametrize(
    "fields",
    [
        {"prompts": {"near": "k l "}},
        {"default_prompt_name": "query"},
        {**PROMPTS, "model_type": "CrossEncoder"},
    ],
)
def test_a_prompt_that_the_library_does_not_use_stands_nowhere(
    sentences: Path, fields: dict[str, Any]
) -> None:
    plain = embedded(sentences)
    write(sentences, "config_sentence_transformers.json", **fields)
    np.testing.assert_array_equal(embedded(sentences), plain)


def test_without_modules_no_file_of_the_library_counts(bert: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    write(folder, "config_sentence_transformers.json", **PROMPTS)
    np.testing.assert_array_equal(embedded(folder), embedded(bert))


def test_a_default_prompt_that_is_not_there_is_refused(sentences: Path) -> None:
    write(sentences, "config_sentence_transformers.json", prompts={}, default_prompt_name="near")
    problem = r"default_prompt_name, 'near', is not among its prompts; set model\.options\.prefix"
    with pytest.raises(InvalidSpec, match=problem):
        embedded(sentences)
    assert len(embedded(sentences, prefix="")) == len(LINES)


@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_a_prompt_is_left_out_of_the_vector_where_the_files_say_so(
    sentences: Path, mode: str
) -> None:
    write(sentences, "Pooling/config.json", pooling_mode=mode, include_prompt=False)
    plain = embedded(sentences)
    np.testing.assert_array_equal(plain, embedded(sentences, pooling=mode))
    first = 1 + len("kl")  # after the token that begins a text
    found = embedded(sentences, prefix="k l ")
    for line, vector in zip(LINES, found, strict=True):
        after = hidden(sentences, f"k l {line}")[first:]
        wanted = after.mean(0) if mode == "mean" else after[0]
        np.testing.assert_allclose(vector, wanted, atol=TOLERANCE)
    write(sentences, "config_sentence_transformers.json", **PROMPTS)
    np.testing.assert_array_equal(embedded(sentences), found)
    of_all = [hidden(sentences, f"k l {line}").mean(0) for line in LINES]
    np.testing.assert_allclose(embedded(sentences, pooling="mean"), of_all, atol=TOLERANCE)
    of_the_end = hidden(sentences, "k l")[-1:]  # where the prompt leaves no room for a text
    np.testing.assert_allclose(
        embedded(sentences, max_length=4), of_the_end.repeat(3, 0), atol=TOLERANCE
    )


def test_how_to_pool_is_not_guessed_where_a_file_is_missing(sentences: Path) -> None:
    """As of a folder that was copied without those in it."""
    whole = embedded(sentences)
    shutil.rmtree(sentences / "Pooling")
    with pytest.raises(InvalidSpec, match=r"lacks Pooling/config\.json, .*: copy it too, or set"):
        embedded(sentences)
    np.testing.assert_array_equal(embedded(sentences, pooling="mean"), whole)


def test_how_to_pool_is_not_guessed_where_no_module_pools(sentences: Path) -> None:
    whole = embedded(sentences)
    modules = [{"type": "st.Transformer", "path": ""}]
    (sentences / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InvalidSpec, match=r"modules\.json without a Pooling, .* set model"):
        embedded(sentences)
    np.testing.assert_array_equal(embedded(sentences, pooling="mean"), whole)


def test_vectors_of_another_output_than_the_last_layer_are_refused(sentences: Path) -> None:
    whole, file = embedded(sentences), "sentence_bert_config.json"
    last = {"method": "forward", "method_output_name": "last_hidden_state"}
    write(sentences, file, modality_config={"text": last}, module_output_name="token_embeddings")
    np.testing.assert_array_equal(embedded(sentences), whole)
    other = {**last, "method_output_name": ["hidden_states", -2]}
    write(sentences, file, modality_config={"text": other}, module_output_name="token_embeddings")
    with pytest.raises(
        InvalidSpec, match=r"vectors of \['hidden_states', -2\] of the model's forw"
    ):
        embedded(sentences)
    np.testing.assert_array_equal(embedded(sentences, pooling="mean"), whole)


@pytest.mark.parametrize("modes", [["cls"], ["mean"]])
def test_a_list_of_one_way_of_pooling_is_that_way(sentences: Path, modes: list[str]) -> None:
    write(sentences, "Pooling/config.json", pooling_mode=modes)
    np.testing.assert_array_equal(embedded(sentences), embedded(sentences, pooling=modes[0]))


def test_several_ways_of_pooling_are_refused_in_either_format(sentences: Path) -> None:
    both: list[dict[str, Any]] = [
        {"pooling_mode": ["cls", "mean"]},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
    ]
    for fields in both:
        write(sentences, "Pooling/config.json", **fields)
        with pytest.raises(InvalidSpec, match=r"pools by \['cls.*', 'mean.*'\]; set model.options"):
            embedded(sentences)


def test_texts_are_read_in_lower_case_where_the_files_say_so(sentences: Path) -> None:
    loud = ["A b", "[SEP] C"]
    in_lower_case = embedded(sentences, ["a b", "[SEP] c"])
    assert np.abs(embedded(sentences, loud) - in_lower_case).max() > 0.1
    write(sentences, "sentence_bert_config.json", do_lower_case=True)
    np.testing.assert_array_equal(embedded(sentences, loud), in_lower_case)
    rows = rows_of("text", ["A b", "a b", "[UNK] b"])
    as_it_is, lower, unknown = predicted(sentences, "text-classification", rows)["predicted_score"]
    assert as_it_is == unknown != lower


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "xlnet"])
def test_old_versions_say_under_other_names_where_texts_end(sentences: Path, kind: str) -> None:
    write(sentences, f"sentence_{kind}_config.json", max_seq_length=4)
    cut_off = embedded(sentences, ["a b c d e"], max_length=4)
    np.testing.assert_array_equal(embedded(sentences, ["a b c d e"]), cut_off)
    write(sentences, "sentence_bert_config.json", max_seq_length=5)
    one_more = embedded(sentences, ["a b c d e"], max_length=5)
    np.testing.assert_array_equal(embedded(sentences, ["a b c d e"]), one_more)


def test_of_a_vector_as_many_numbers_are_kept_as_the_files_say(sentences: Path) -> None:
    whole = embedded(sentences)
    unit = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    write(sentences, "config_sentence_transformers.json", truncate_dim=5)
    first = embedded(sentences)
    np.testing.assert_array_equal(first, whole[:, :5])
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(embedded(sentences, normalize=True), first / lengths, atol=TOLERANCE)
    modules = json.loads((sentences / "modules.json").read_text())
    modules.append({"type": "st.Normalize", "path": "Normalize"})
    (sentences / "modules.json").write_text(json.dumps(modules))
    # It is the whole vector that the model's own step makes as long as 1.
    np.testing.assert_allclose(embedded(sentences), unit[:, :5], atol=TOLERANCE)
    assert embedded(sentences, LINES[:1]).shape == (1, 5)


@pytest.mark.parametrize(
    "fields",
    [
        {"processing_kwargs": {"text": {"max_length": 4}}, "tokenizer_args": {}},
        {"processor_kwargs": {"model_max_length": 4}},
        {"tokenizer_args": {"model_max_length": 4}, "processing_kwargs": {"text": {}}},
    ],
)
def test_texts_end_where_the_arguments_of_the_tokenizer_say(
    sentences: Path, fields: dict[str, Any]
) -> None:
    cut_off = embedded(sentences, ["a b c d e"], max_length=4)
    write(sentences, "sentence_bert_config.json", max_seq_length=6, **fields)
    np.testing.assert_array_equal(embedded(sentences, ["a b c d e"]), cut_off)


def test_texts_end_where_the_library_lets_them_also_beyond_the_tokenizers_own_limit(
    sentences: Path,
) -> None:
    whole = embedded(sentences, ["a b c d e"])
    file = sentences / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": 4}))
    assert not np.array_equal(embedded(sentences, ["a b c d e"]), whole)
    write(sentences, "sentence_bert_config.json", max_seq_length=60)
    np.testing.assert_array_equal(embedded(sentences, ["a b c d e"]), whole)
