"""What sentence-transformers' files say of how texts are read is done as that library does it."""

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.embedding import text_forward
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.tiny_encoders import save_encoder
from tests.kinds.tiny_models import predicted, rows_of, save_bert, saved, texts
from tests.kinds.tiny_writers import save_t5

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
    list_modules(folder)
    write(folder, "Pooling/config.json", pooling_mode="mean")
    return folder


def list_modules(folder: Path, *more: str) -> None:
    """Name the steps, each by its folder."""
    names = ("Transformer", "Pooling", *more)
    modules = [{"type": f"st.{name.partition('_')[0]}", "path": name} for name in names]
    (folder / "modules.json").write_text(json.dumps(modules))


def write(folder: Path, name: str, **fields: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(fields))


def embedded(folder: Path, lines: list[str] = LINES, **options: Any) -> np.ndarray:
    found = predicted(folder, "feature-extraction", rows_of("text", lines), **options)
    return np.stack(found["embedding"].to_pylist())


def hidden(folder: Path, lines: Iterable[str]) -> list[np.ndarray]:
    """A vector for each token of each text, as transformers gives them for a text alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = (each.from_pretrained(folder) for each in (AutoTokenizer, AutoModel))
    with torch.inference_mode():
        found = [model(**tokenizer(line, return_tensors="pt")) for line in lines]
    return [each.last_hidden_state[0].numpy() for each in found]


PROMPTS: dict[str, Any] = {"prompts": {"near": "k l ", "far": "m "}, "default_prompt_name": "near"}


def test_the_default_prompt_stands_before_each_text(sentences: Path) -> None:
    plain = embedded(sentences)
    before = HuggingFaceModel(task="feature-extraction", name_or_path=str(sentences)).fingerprint()
    write(sentences, "config_sentence_transformers.json", **PROMPTS)
    own = embedded(sentences)
    wanted = [each.mean(0) for each in hidden(sentences, (f"k l {line}" for line in LINES))]
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
    tokens = hidden(sentences, (f"k l {line}" for line in LINES))
    for each, vector in zip(tokens, found, strict=True):
        wanted = each[first:].mean(0) if mode == "mean" else each[first]
        np.testing.assert_allclose(vector, wanted, atol=TOLERANCE)
    write(sentences, "config_sentence_transformers.json", **PROMPTS)
    np.testing.assert_array_equal(embedded(sentences), found)
    of_all = [each.mean(0) for each in hidden(sentences, (f"k l {line}" for line in LINES))]
    np.testing.assert_allclose(embedded(sentences, pooling="mean"), of_all, atol=TOLERANCE)
    of_the_end = hidden(sentences, ["k l"])[0][-1:]  # where the prompt leaves no room for a text
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
    with pytest.raises(InvalidSpec, match=r"modules\.json without a Pooling module, .* set model"):
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
        InvalidSpec, match=r"vectors from \['hidden_states', -2\] of the model's forw"
    ):
        embedded(sentences)
    np.testing.assert_array_equal(embedded(sentences, pooling="mean"), whole)


def test_texts_are_not_embedded_outside_the_chat_template_that_the_library_writes_them_in(
    sentences: Path,
) -> None:
    """Whatever its files say of texts: where it takes conversations, each text becomes one."""
    whole = embedded(sentences)
    last = {"method": "forward", "method_output_name": "last_hidden_state"}
    both = {"text": last, "message": {**last, "format": "flat"}}
    write(sentences, "sentence_bert_config.json", modality_config=both)
    model = HuggingFaceModel(task="feature-extraction", name_or_path=str(sentences))
    with pytest.raises(InvalidSpec, match=r"chat template .* own class, .* or set model\.options"):
        model.check()
    np.testing.assert_array_equal(embedded(sentences, pooling="mean"), whole)


@pytest.mark.parametrize("name", ["tokenizer_args", "processor_kwargs"])
def test_texts_are_not_read_by_other_settings_than_the_library_reads_them_by(
    sentences: Path, name: str
) -> None:
    long, ends = ["a b c d e"], embedded(sentences, ["d e"])
    file = sentences / "tokenizer_config.json"
    own = json.loads(file.read_text()) | {"model_max_length": 4}
    of_tokenizer: dict[str, Any] = {"use_fast": True, "truncation_side": "left"}
    write(sentences, "sentence_bert_config.json", **{name: of_tokenizer})
    model = HuggingFaceModel(task="feature-extraction", name_or_path=str(sentences))
    problem = r"sets truncation_side of the tokenizer, .* its tokenizer_config\.json$"
    with pytest.raises(InvalidSpec, match=problem):
        model.check()
    file.write_text(json.dumps(own | {"truncation_side": "left"}))
    np.testing.assert_allclose(embedded(sentences, long), ends, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["config_kwargs", "config_args", "model_kwargs", "model_args"])
def test_a_model_is_not_read_by_other_settings_than_the_library_reads_it_by(
    sentences: Path, name: str
) -> None:
    whole, file = embedded(sentences), "sentence_bert_config.json"
    write(sentences, file, **{name: {"trust_remote_code": True, "hidden_size": 32}})
    np.testing.assert_array_equal(embedded(sentences), whole)
    write(sentences, file, **{name: {"is_decoder": True}})  # each token sees those before it
    model = HuggingFaceModel(task="feature-extraction", name_or_path=str(sentences))
    with pytest.raises(InvalidSpec, match=r"sets is_decoder of the model, .* its config\.json$"):
        model.check()
    config = json.loads((sentences / "config.json").read_text())
    write(sentences, "config.json", **{**config, "is_decoder": True})
    assert np.abs(embedded(sentences) - whole).max() > 0.1


@pytest.mark.parametrize("writes", [True, False])
def test_the_reading_half_of_a_model_that_writes_makes_embeddings(
    tmp_path: Path, writes: bool
) -> None:
    """As Sentence-T5 and GTR; transformers says of them that they write, or that they do not."""
    import torch
    from transformers import AutoTokenizer, T5EncoderModel

    save_t5(tmp_path)
    half = saved(T5EncoderModel.from_pretrained(tmp_path), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    write(tmp_path, "config.json", **{**config, "is_encoder_decoder": writes})
    HuggingFaceModel(task="feature-extraction", name_or_path=str(tmp_path)).check()
    lines = texts(24, longest=40)
    found, tokenizer = embedded(tmp_path, lines), AutoTokenizer.from_pretrained(tmp_path)
    for line, vector in zip(lines, found, strict=True):
        with torch.inference_mode():
            ids = tokenizer(line, return_tensors="pt")["input_ids"]
            wanted = half(input_ids=ids).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, wanted, atol=TOLERANCE)


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
        model = HuggingFaceModel(task="feature-extraction", name_or_path=str(sentences))
        with pytest.raises(InvalidSpec, match=r"pooling \['cls.*', 'mean.*'\], which is not"):
            model.check()


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
    list_modules(sentences, "Normalize")
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


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_the_last_tokens_vector_is_a_texts_own(tmp_path: Path, kind: str, side: str) -> None:
    save_encoder(tmp_path, kind, "feature-extraction")
    list_modules(tmp_path, "Normalize")
    write(tmp_path, "Pooling/config.json", pooling_mode_lasttoken=True, include_prompt=False)
    write(tmp_path, "config_sentence_transformers.json", **PROMPTS)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "padding_side": side}))
    lines = texts(24, longest=30)
    last = np.stack([each[-1] for each in hidden(tmp_path, (f"k l {line}" for line in lines))])
    wanted = last / np.linalg.norm(last, axis=1, keepdims=True)
    np.testing.assert_allclose(embedded(tmp_path, lines), wanted, atol=1e-5)
    alone = embedded(tmp_path, lines, batch_size=1)
    np.testing.assert_allclose(embedded(tmp_path, lines), alone, atol=1e-5)
    (tmp_path / "modules.json").unlink()
    found = embedded(tmp_path, lines, pooling="lasttoken", prefix="k l ")
    np.testing.assert_allclose(found, last, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_last_token_is_found_beside_padding_on_either_side(tmp_path: Path, side: str) -> None:
    import torch

    model = save_encoder(tmp_path, "llama", "feature-extraction")
    lines = [[5, 6, 7], [8], [9, 10]]
    ids, mask = torch.zeros(3, 4, dtype=torch.int64), torch.zeros(3, 4, dtype=torch.int64)
    for row, line in enumerate(lines):
        own = slice(4 - len(line), 4) if side == "left" else slice(0, len(line))
        ids[row, own], mask[row, own] = torch.tensor(line), 1
    with torch.inference_mode():
        found = text_forward(model, "lasttoken")({"input_ids": ids, "attention_mask": mask})
        wanted = [model(torch.tensor([line])).last_hidden_state[0, -1].numpy() for line in lines]
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5)


def add_dense(
    folder: Path, size: tuple[int, int], activation: str, *, bias: bool, safe: bool
) -> tuple[np.ndarray, np.ndarray]:
    """A layer's files; its weights."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(sum(size))
    layer = torch.nn.ModuleDict({"linear": torch.nn.Linear(*size, bias=bias)})
    fields = {"in_features": size[0], "out_features": size[1], "bias": bias}
    folder.mkdir()
    write(folder, "config.json", **fields, activation_function=f"torch.nn.modules.{activation}")
    weights = layer.state_dict()
    if safe:
        save_file(weights, folder / "model.safetensors")
    else:
        torch.save(weights, folder / "pytorch_model.bin")
    shift = weights["linear.bias"] if bias else torch.zeros(size[1])
    return weights["linear.weight"].numpy(), shift.numpy()


def test_vectors_go_through_the_dense_layers_of_the_files(sentences: Path) -> None:
    whole = embedded(sentences)
    layers = ("Dense_1", "Dense_2")
    wide = add_dense(sentences / layers[0], (32, 48), "activation.Tanh", bias=True, safe=False)
    slim = add_dense(sentences / layers[1], (48, 8), "linear.Identity", bias=False, safe=True)
    list_modules(sentences, *layers)
    made = np.tanh(whole @ wide[0].T + wide[1]) @ slim[0].T + slim[1]
    np.testing.assert_allclose(embedded(sentences), made, atol=TOLERANCE)
    unit = made / np.linalg.norm(made, axis=1, keepdims=True)
    np.testing.assert_allclose(embedded(sentences, normalize=True), unit, atol=TOLERANCE)
    list_modules(sentences, *layers, "Normalize")
    np.testing.assert_allclose(embedded(sentences), unit, atol=TOLERANCE)
    np.testing.assert_allclose(embedded(sentences, normalize=False), made, atol=TOLERANCE)
    np.testing.assert_array_equal(embedded(sentences, pooling="mean", normalize=False), whole)
    model = HuggingFaceModel(task="feature-extraction", name_or_path=str(sentences))
    model.check()
    (sentences / "Dense_2" / "model.safetensors").unlink()
    problem = r"has no Dense_2/model\.safetensors or .*\.bin, for a layer .*: copy it too"
    with pytest.raises(InvalidSpec, match=problem):
        embedded(sentences)
    (sentences / "Dense_2" / "config.json").unlink()
    with pytest.raises(
        InvalidSpec, match=r"has no Dense_2/config\.json, for a layer .*: copy it too"
    ):
        model.check()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"activation_function": "my_package.Swish"}, "through my_package.Swish, which is not"),
        ({"activation_function": "torch.nn.modules.loss.L1Loss"}, "L1Loss, which is not supported"),
        ({"module_input_name": "token_embeddings"}, "or works on tokens, which is not supported"),
        ({"use_residual": True}, "is added beside its input"),
        ({"out_features": 5}, "has weights in Dense that do not fit its config.json"),
    ],
)
def test_a_dense_layer_that_cannot_be_made_is_refused(
    sentences: Path, fields: dict[str, Any], problem: str
) -> None:
    add_dense(sentences / "Dense", (32, 4), "activation.Tanh", bias=True, safe=True)
    list_modules(sentences, "Dense")
    assert embedded(sentences).shape == (len(LINES), 4)
    config = json.loads((sentences / "Dense" / "config.json").read_text())
    write(sentences, "Dense/config.json", **{**config, **fields})
    with pytest.raises(InvalidSpec, match=problem):
        embedded(sentences)
