"""What is wrong with a model is found from its files, before anything is loaded."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.models import AnyModel, HuggingFaceModel, VllmModel
from tasks.kinds.models.hf import architectures
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.embedding import wanted
from tasks.kinds.models.hf.options import HuggingFaceOptions
from tasks.kinds.models.hf.processor_files import missing_on_hub
from tasks.kinds.models.hf.transformers_types import listed_types, types_here
from tasks.kinds.models.model import Placement
from tests.kinds.tiny_models import images, png, predicted, rows_of, save_bert, save_vit, saved
from tests.kinds.tiny_writers import save_t5

Spoil = Callable[[Path], Any]
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer_config.json"
ADAPTER = "adapter_config.json"


def edit(name: str, **fields: Any) -> Spoil:
    """Overwrite fields of a JSON file."""

    def write(folder: Path) -> None:
        file = folder / name
        old = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**old, **fields}))

    return write


def edit_config(**fields: Any) -> Spoil:
    """Overwrite fields of config.json."""
    return edit(CONFIG, **fields)


def cut_off(name: str) -> Spoil:
    """Leave out the last bytes of a file."""

    def cut(folder: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-9])

    return cut


def split_by_a_broken_list(folder: Path) -> None:
    (folder / f"{WEIGHTS}.index.json").write_text("{")
    (folder / WEIGHTS).unlink()


def split_without_a_part(folder: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
    (folder / WEIGHTS).unlink()


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text classifier, to be copied and spoiled."""
    folder = tmp_path_factory.mktemp("bert")
    save_bert(folder)
    return folder


@pytest.fixture
def copied(bert: Path, tmp_path: Path) -> Path:
    """A text classifier of the test's own."""
    return Path(shutil.copytree(bert, tmp_path / "model"))


def model(folder: Path | str, task: str = "text-classification", **fields: Any) -> HuggingFaceModel:
    return HuggingFaceModel.model_validate({"task": task, "name_or_path": str(folder), **fields})


def only_an_adapter(folder: Path) -> None:
    edit(ADAPTER, base_model_name_or_path="org/base")(folder)
    (folder / CONFIG).unlink()
    (folder / WEIGHTS).rename(folder / "adapter_model.safetensors")


def left_by_a_trainer(folder: Path) -> None:
    for each in ("checkpoint-20", "checkpoint-100"):
        shutil.copytree(folder, folder / each, ignore=shutil.ignore_patterns("checkpoint-*"))
    (folder / CONFIG).unlink()


@pytest.mark.parametrize("ending", ["", ".index.json"])
def test_weights_may_have_the_name_that_the_configuration_gives(copied: Path, ending: str) -> None:
    name = f"other.safetensors{ending}"
    edit_config(transformers_weights=name)(copied)
    with pytest.raises(InvalidSpec, match=r"has no model weights: no other\.safetensors$"):
        model(copied).check()
    (copied / WEIGHTS).rename(copied / "other.safetensors")
    if ending:
        from safetensors import safe_open

        with safe_open(copied / "other.safetensors", "pt") as file:
            weight_map = dict.fromkeys(file.keys(), "other.safetensors")
        (copied / name).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    model(copied).check()
    assert len(predicted(copied, "text-classification", rows_of("text", ["a b"]))) == 1
    config = json.loads((copied / CONFIG).read_text())
    for there, lacks in ((name, {}), (WEIGHTS, {"weights": (name,)})):
        assert missing_on_hub(frozenset({there}), "text-classification", config) == lacks


@pytest.mark.parametrize("has_peft", [False, True])
def test_an_adapter_is_never_left_out_without_a_word(
    tmp_path: Path, has_peft: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_bert(tmp_path)
    edit(ADAPTER, base_model_name_or_path="org/base")(tmp_path)
    here = "tasks.kinds.models.hf.folder.transformers_applies_them"
    monkeypatch.setattr(here, lambda: has_peft)
    monkeypatch.setattr("tasks.kinds.models.vllm.require", lambda *_: None)
    model = HuggingFaceModel(task="text-classification", name_or_path=str(tmp_path))
    problem = r"contains an adapter .* beside the model, which would be ignored: merge the two"
    with contextlib.nullcontext() if has_peft else pytest.raises(InvalidSpec, match=problem):
        model.check()
    with pytest.raises(InvalidSpec, match=problem):  # it has its own way with adapters
        VllmModel(name_or_path=str(tmp_path)).check()


@pytest.mark.parametrize(
    ("spoil", "task", "message"),
    [
        (shutil.rmtree, "text-classification", "is not a folder"),
        (lambda f: (f / CONFIG).unlink(), "text-classification", "has no config.json"),
        (
            left_by_a_trainer,
            "text-classification",
            "wrote, such as one of those within: checkpoint-100, checkpoint-20",
        ),
        (lambda f: (f / CONFIG).write_text("{"), "text-classification", "broken config.json"),
        (only_an_adapter, "text-classification", "adapter of 'org/base' but no model: merge the"),
        (lambda f: (f / WEIGHTS).unlink(), "text-classification", "no model.safetensors"),
        (cut_off(WEIGHTS), "text-classification", r"broken model.safetensors: is incomplete: it h"),
        (
            lambda f: (f / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1"),
            "text-classification",
            "is a Git LFS pointer, not the file: git lfs pull",
        ),
        (lambda f: (f / WEIGHTS).write_bytes(b""), "text-classification", "it has 0 bytes"),
        (
            lambda f: (f / WEIGHTS).write_bytes(b"\1" + b"\0" * 7 + b"7"),
            "text-classification",
            "header",
        ),
        (cut_off("tokenizer.json"), "text-classification", r"has a broken tokenizer.json: "),
        (split_by_a_broken_list, "text-classification", "broken model.safetensors.index.json"),
        (split_without_a_part, "text-classification", "model-00001-of-00002.safetensors"),
        (lambda f: (f / "tokenizer.json").unlink(), "text-classification", "has no tokenizer"),
        (lambda f: None, "image-feature-extraction", "has no image processor"),
        (lambda f: None, "image-classification", "is BertForSequenceClassification"),
        (lambda f: None, "text-generation", "needs a model whose name has ForCausalLM"),
        (
            edit_config(architectures=["OwlViTForObjectDetection"], model_type="owlvit"),
            "object-detection",
            "OwlViTForObjectDetection, which looks for objects given as text: use a detector",
        ),
        (edit_config(is_encoder_decoder=True), "feature-extraction", "encoder-decoder"),
        (
            edit_config(architectures=["Siglip2Model"], model_type="siglip2"),
            "image-feature-extraction",
            "takes images of any shape, .* use a checkpoint for images of one size",
        ),
        (
            edit_config(auto_map={"AutoModel": "x.Y"}, model_type=None),
            "feature-extraction",
            "without a model_type, and contains its own Python code, which is never run: use a ",
        ),
        (
            edit_config(auto_map={"AutoConfig": "x.Z"}, model_type="evil-model"),
            "text-classification",
            "type 'evil-model', .* not know, and contains its own .*your own class, with kind: "
            "python, if you ",
        ),
        (
            edit_config(model_type="evil-model", is_encoder_decoder=True),
            "text-classification",
            "type 'evil-model', .* does not know; check config.json, or install a ne",
        ),
        (edit_config(model_type=["a"]), "text-classification", "not know; check config.json"),
        (
            edit_config(quantization_config={"load_in_4bit": True}),
            "text-classification",
            "quantised with bitsandbytes, which need bitsandbytes accelerate: pip install "
            "bitsandby",
        ),
        (
            edit_config(quantization_config={"quant_method": "compressed-tensors"}),
            "text-classification",
            "quantised with compressed-tensors, which need compressed-tensors: pip install "
            "compress",
        ),
        (
            edit_config(model_type=None),
            "text-classification",
            "without a model_type; check that it",
        ),
    ],
)
def test_a_folder_that_does_not_do_is_explained(
    copied: Path, spoil: Spoil, task: str, message: str
) -> None:
    spoil(copied)
    with pytest.raises(InvalidSpec, match=message) as raised:
        model(copied, task).check()
    assert str(raised.value).startswith(f"model.name_or_path: {str(copied)!r} ")


@pytest.mark.parametrize(
    "fields",
    [
        {"auto_map": {"AutoModel": "x.Y"}},
        {"model_type": "audio-spectrogram-transformer"},
        {"model_type": "bert-japanese"},  # in no list, but there is a folder of that name
    ],
)
def test_a_type_that_transformers_may_have_is_not_refused(
    copied: Path, fields: dict[str, Any]
) -> None:
    edit_config(**fields)(copied)
    model(copied).check()


def test_code_that_is_not_run_is_told_of_once(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = {"AutoConfig": "x.Config", "AutoModelForSequenceClassification": "x.Both"}
    edit_config(auto_map=own)(copied)
    for _ in range(2):
        model(copied).check()
    (said,) = [each.getMessage() for each in caplog.records]
    assert said.startswith(f"model.name_or_path: {str(copied)!r} contains its own Python code (x.")
    assert "x.Both" in said
    assert "class for the type bert predicts" in said


def test_timms_files_need_neither_type_nor_processor(copied: Path) -> None:
    (copied / CONFIG).write_text(json.dumps({"pretrained_cfg": {}}))
    for task in ("text-classification", "image-classification"):
        model(copied, task).check()


def test_a_tokenizer_of_bytes_needs_no_file_of_words(tmp_path: Path) -> None:
    from transformers import ByT5Tokenizer

    save_t5(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    ByT5Tokenizer().save_pretrained(tmp_path)
    made = model(tmp_path, "translation")
    made.check()
    read = made.preprocessor()(rows_of("text", ["ab"]))
    assert read["__input_ids"].to_pylist() == [[100, 101, 1]]


def test_the_types_that_transformers_has_are_those_that_it_lists() -> None:
    from transformers.models.auto import auto_mappings, configuration_auto

    listed = listed_types(Path(configuration_auto.__file__).parent)
    assert listed == set(configuration_auto.CONFIG_MAPPING_NAMES)
    assert {*auto_mappings.SPECIAL_MODEL_TYPE_TO_MODULE_NAME, "gpt-sw3", "timm_wrapper"} <= listed
    assert listed < types_here()


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"auto_mappings.py": 'CONFIG_MAPPING_NAMES = {"bert": "BertConfig"}'},
        {"auto_mappings.py": "def", "configuration_auto.py": ""},
        {"auto_mappings.py": '"\xff"', "configuration_auto.py": ""},
        {"auto_mappings.py": 'CONFIG_MAPPING_NAMES = {"a": "b"}', "configuration_auto.py": ""},
        {"auto_mappings.py": 'OTHER = {"bert": "BertConfig"}', "configuration_auto.py": ""},
        {"auto_mappings.py": "from x import CONFIG_MAPPING_NAMES", "configuration_auto.py": ""},
    ],
)
def test_lists_of_another_transformers_name_no_types(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, "latin-1")
    assert listed_types(tmp_path) == set()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "type 'evilmodel', which .* not know; check config.json, or install a "),
        (
            {"auto_map": {"AutoConfig": "x.Y"}},
            "type 'evilmodel', .* not know, and contains its own ",
        ),
    ],
)
def test_loading_refuses_a_type_that_the_check_could_not_tell(
    copied: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(architectures, "types_here", frozenset)
    edit_config(model_type="evilmodel", **fields)(copied)
    asked = model(copied)
    asked.check()
    loads: list[Callable[[], Any]] = [asked.preprocessor, partial(asked.predictor, Placement())]
    for load in loads:
        with pytest.raises(InvalidSpec, match=message) as raised:
            load()
        assert str(raised.value).startswith(f"model.name_or_path: {str(copied)!r} ")


@pytest.mark.parametrize(
    ("file", "fields", "load"),
    [
        (
            CONFIG,
            {"auto_map": {"AutoModelForObjectDetection": "x.Y"}},
            lambda it: it.model("AutoModelForObjectDetection", Placement()),
        ),
        (
            TOKENIZER,
            {"auto_map": {"AutoTokenizer": ["x.Y", None]}, "tokenizer_class": "Evil"},
            Checkpoint.tokenizer,
        ),
        (
            "preprocessor_config.json",
            {"auto_map": {"AutoImageProcessor": "x.Y"}},
            Checkpoint.image_processor,
        ),
        (
            "preprocessor_config.json",
            {"auto_map": {"AutoFeatureExtractor": "x.Y"}},
            Checkpoint.feature_extractor,
        ),
    ],
)
def test_loading_refuses_a_part_that_only_code_of_the_checkpoint_makes(
    copied: Path, file: str, fields: dict[str, Any], load: Callable[[Checkpoint], Any]
) -> None:
    if file == TOKENIZER:  # for BERT's, transformers has one of its own
        edit_config(model_type="resnet")(copied)
    edit(file, **fields)(copied)
    message = r"^model.name_or_path: '.*' contains its own Python code, which is never run: use "
    with pytest.raises(InvalidSpec, match=message):
        load(Checkpoint(str(copied)))


def test_other_errors_of_loading_stay_what_they_are(copied: Path) -> None:
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        Checkpoint(str(copied)).model("AutoModelForObjectDetection", Placement())


def bring_code(folder: Path, runs: Path) -> None:
    """Give a text classifier code that touches a file for each part that is loaded with it."""
    runs.mkdir()
    classes = {
        "config": ("AutoConfig", "BertConfig"),
        "model": ("AutoModelForSequenceClassification", "BertForSequenceClassification"),
        "tokenizer": ("AutoTokenizer", "PreTrainedTokenizerFast"),
    }
    for part, (_, base) in classes.items():
        touch = f"from pathlib import Path\nPath({str(runs / part)!r}).touch()"
        (folder / f"evil_{part}.py").write_text(f"{touch}\nfrom transformers import {base} as Evil")
    maps = {auto: f"evil_{part}.Evil" for part, (auto, _) in classes.items()}
    edit(TOKENIZER, auto_map={"AutoTokenizer": [None, maps.pop("AutoTokenizer")]})(folder)
    edit_config(auto_map=maps)(folder)


def test_code_of_a_checkpoint_is_never_run(copied: Path, tmp_path: Path) -> None:
    rows, runs = rows_of("text", ["a b c", "d"]), tmp_path / "runs"
    before = predicted(copied, "text-classification", rows)
    bring_code(copied, runs)
    assert predicted(copied, "text-classification", rows) == before
    assert list(runs.iterdir()) == []

    script = f"""
from transformers import AutoModelForSequenceClassification, AutoTokenizer
for each in (AutoModelForSequenceClassification, AutoTokenizer):
    each.from_pretrained({str(copied)!r}, trust_remote_code=True)
"""
    in_a_clean_process(script, HF_HOME=str(tmp_path))
    assert {each.name for each in runs.iterdir()} == {"config", "model", "tokenizer"}


def test_classes_without_names_are_the_checkpoints_fault(copied: Path) -> None:
    edit_config(id2label={"1": "cat", "2": "dog", "3": "owl"}, label2id={})(copied)
    message = r"model.name_or_path: .* no name for class 0: id2label .* from 0 to 2"
    with pytest.raises(InvalidSpec, match=message):
        predicted(copied, "text-classification", rows_of("text", ["a b"]))


def test_weights_of_other_shapes_are_the_checkpoints_fault(copied: Path) -> None:
    edit_config(id2label={"0": "cat", "1": "dog"}, label2id={})(copied)
    message = r"model.name_or_path: .*bias has shape \(3,\), but \(2,\) .* check that id2label"
    with pytest.raises(InvalidSpec, match=message):
        predicted(copied, "text-classification", rows_of("text", ["a b"]))


def test_a_layer_that_the_configuration_leaves_out_is_missed(copied: Path) -> None:
    edit_config(num_hidden_layers=1)(copied)
    message = (
        r"model.name_or_path: .* does not fit its config.json: .*encoder.layer.1.* belongs to a "
        "layer that config.json leaves out"
    )
    for task in ("text-classification", "feature-extraction"):
        with pytest.raises(InvalidSpec, match=message):
            predicted(copied, task, rows_of("text", ["a b"]))


def test_more_weights_of_layers_that_are_there_are_let_be(copied: Path) -> None:
    """As those that another layer's stand for, and copies under the name of the model's base."""
    from safetensors.torch import load_file, save_file

    file = copied / "model.safetensors"
    weights = load_file(file)
    copies = {name.removeprefix("bert."): each.clone() for name, each in weights.items()}
    save_file({**weights, **copies}, file, metadata={"format": "pt"})
    for task in ("text-classification", "feature-extraction"):
        predicted(copied, task, rows_of("text", ["a b"]))


def test_layers_that_transformers_leaves_out_on_purpose_are_not_missed(copied: Path) -> None:
    """They guess the tokens after the next one, and stand behind the last layer."""
    edit_config(num_hidden_layers=1, num_nextn_predict_layers=1)(copied)
    predicted(copied, "text-classification", rows_of("text", ["a b"]))


def test_a_package_that_is_missed_where_a_model_is_loaded_is_the_specs_fault(copied: Path) -> None:
    checkpoint = Checkpoint(str(copied))
    message = "model.name_or_path: .* not installed: install it, here and .* You need fugashi"
    with pytest.raises(InvalidSpec, match=message), checkpoint.explains():
        raise ImportError("You need\nfugashi")
    with pytest.raises(ImportError, match="no_such"), checkpoint.explains():
        from transformers import no_such  # noqa: F401


@pytest.mark.parametrize(
    "settings",
    [
        {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": False},
        {"quant_method": "mxfp4", "dequantize": True},
    ],
)
def test_weights_that_transformers_reads_without_a_package_are_let_be(
    copied: Path, settings: dict[str, Any]
) -> None:
    edit_config(quantization_config=settings)(copied)
    predicted(copied, "text-classification", rows_of("text", ["a b"]))


def test_a_good_folder_and_a_hub_name_pass(copied: Path) -> None:
    model(copied).check()
    model("google/vit-base-patch16-224", "image-classification").check()


@pytest.mark.parametrize("name", ["s3://bucket/model", "a/b/c", "a b", "a--b/c", "..x"])
def test_what_can_be_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidSpec, match=r"model\.name_or_path"):
        model(name).check()


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("feature-extraction", {"top_k": 5}, r"model\.options\.top_k: 5 .*feature-extraction"),
        ("image-classification", {"max_length": 9}, r"model\.options\.max_length: 9 "),
        ("text-classification", {"pooling": "cls"}, r"model\.options\.pooling: 'cls' "),
        ("image-feature-extraction", {"pooling": "lasttoken"}, "pooling: 'lasttoken' is for texts"),
        ("text-generation", {"temperature": 0.5}, "without do_sample: true"),
        ("text-generation", {"top_q": 1}, "top_q"),
        ("image-classification", {"top_k": 0}, "top_k"),
        ("sentiment-analysis", {}, "it is another name for text-classification: write that"),
        ("text-clasification", {}, r"did you mean text-classification\?"),
        ("fill-mask", {}, "one of image-classification, .* write your own class: kind: python"),
    ],
)
def test_tasks_and_options_of_other_tasks_are_refused(
    task: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        model("some/name", task, options=options)


def test_full_dumps_validate_for_every_task() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(AnyModel)
    for task, column in [
        ("image-classification", "image"),
        ("text-classification", "text"),
        ("feature-extraction", "text"),
        ("image-feature-extraction", "image"),
        ("text-generation", "prompt"),
        ("text2text-generation", "text"),
        ("summarization", "text"),
        ("translation", "text"),
        ("automatic-speech-recognition", "audio"),
        ("audio-classification", "audio"),
        ("image-segmentation", "image"),
        ("depth-estimation", "image"),
    ]:
        made = model("some/name", task)
        assert adapter.validate_json(made.model_dump_json()) == made
        assert made.input_columns == [column]
    assert model("some/name", "question-answering").input_columns == ["question", "context"]
    assert model("some/name", column="body").input_columns == ["body"]


def remove_weights(folder: Path, part: str) -> None:
    """Leave out of a checkpoint the weights in whose names a part stands, of which there are."""
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / WEIGHTS)
    kept = {name: values for name, values in weights.items() if part not in name}
    assert len(kept) < len(weights)
    save_file(kept, folder / WEIGHTS, {"format": "pt"})


def test_a_checkpoint_without_the_tasks_weights_is_refused(copied: Path) -> None:
    remove_weights(copied, "classifier")
    with pytest.raises(InvalidSpec, match=r"lacks weights .*classifier"):
        predicted(copied, "text-classification", rows_of("text", ["a"]))
    predicted(copied, "feature-extraction", rows_of("text", ["a"]))


def test_vectors_are_of_the_checkpoints_weights_alone(copied: Path) -> None:
    """Weights that are missing are made up, anew at each load."""
    given = rows_of("text", ["a b"])
    whole = predicted(copied, "feature-extraction", given)
    remove_weights(copied, "pooler")  # through which no vector goes
    assert predicted(copied, "feature-extraction", given) == whole
    remove_weights(copied, "position_embeddings")
    with pytest.raises(InvalidSpec, match=r"lacks weights .*position_embeddings"):
        predicted(copied, "feature-extraction", given)


def test_vectors_of_images_are_too(tmp_path: Path) -> None:
    from transformers import BeitConfig, BeitModel

    task, given = "image-feature-extraction", rows_of("image", [png(images(1)[0])])
    save_vit(tmp_path / "vit")  # a classifier, which has no pooler
    predicted(tmp_path / "vit", task, given)
    save_vit(tmp_path / "beit")  # for the images' processor
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = BeitModel(BeitConfig(image_size=16, patch_size=4, intermediate_size=8, **sizes))
    saved(model, tmp_path / "beit")
    predicted(tmp_path / "beit", task, given)
    remove_weights(tmp_path / "beit", "pooler")  # the mean's own layer
    with pytest.raises(InvalidSpec, match=r"lacks weights .*pooler.layernorm"):
        predicted(tmp_path / "beit", task, given)


class Bomb:
    """Runs code when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_old_weights_are_read_but_never_unpickled(copied: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    rows = rows_of("text", ["a b c"])
    wanted_rows = predicted(copied, "text-classification", rows)
    weights = load_file(copied / WEIGHTS)
    (copied / WEIGHTS).unlink()
    torch.save(weights, copied / "pytorch_model.bin")
    (again,), (wanted_row,) = (
        each.to_pylist() for each in (predicted(copied, "text-classification", rows), wanted_rows)
    )
    # The last digit of a score is up to how weights lie in memory.
    assert again == {**wanted_row, "predicted_score": pytest.approx(wanted_row["predicted_score"])}

    torch.save({**weights, "bomb": Bomb(tmp_path / "exploded")}, copied / "pytorch_model.bin")
    with pytest.raises(InvalidSpec, match=r"never unpickled; save them as safetensors"):
        predicted(copied, "text-classification", rows)
    assert not (tmp_path / "exploded").exists()


def test_sentence_transformers_files_are_followed(copied: Path) -> None:
    def files(pooling: dict[str, bool], *more: str) -> tuple[str, bool]:
        kinds = ["Transformer", "Pooling", *more]
        modules = [
            {"type": f"st.models.{kind}", "path": f"{i}_{kind}"} for i, kind in enumerate(kinds)
        ]
        (copied / "modules.json").write_text(json.dumps(modules))
        (copied / "1_Pooling").mkdir(exist_ok=True)
        (copied / "1_Pooling" / CONFIG).write_text(json.dumps(pooling))
        return wanted(HuggingFaceOptions(), Checkpoint(str(copied)))

    assert wanted(HuggingFaceOptions(), Checkpoint(str(copied))) == ("mean", False)
    cls = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    assert files(cls, "Normalize") == ("cls", True)
    assert files({"pooling_mode_mean_tokens": True, "include_prompt": True}) == ("mean", False)
    with pytest.raises(InvalidSpec, match="max_tokens"):
        files({"pooling_mode_max_tokens": True})
    assert files({"pooling_mode_lasttoken": True}) == ("lasttoken", False)
    with pytest.raises(InvalidSpec, match="LayerNorm"):
        files(cls, "LayerNorm")
    with pytest.raises(InvalidSpec, match="'Normalize', 'Dense'"):
        files(cls, "Normalize", "Dense")
    chosen = HuggingFaceOptions(pooling="mean", normalize=False)
    assert wanted(chosen, Checkpoint(str(copied))) == ("mean", False)


def test_the_size_of_the_weights_is_that_of_their_files(copied: Path) -> None:
    whole = (copied / WEIGHTS).stat().st_size
    (copied / "optimizer.safetensors").write_bytes(b"12345")
    assert model(copied).weights_bytes == whole
    (copied / WEIGHTS).unlink()
    assert model(copied).weights_bytes == 0
    for part in (1, 2):
        (copied / f"model-0000{part}-of-00002.safetensors").write_bytes(b"123")
    assert model(copied).weights_bytes == 6
    assert model("org/on-the-hub").weights_bytes is None


def test_the_fingerprint_follows_the_files(copied: Path) -> None:
    before = model(copied).fingerprint()
    assert model(copied).fingerprint() == before
    (copied / ".cache").write_text("x")
    assert model(copied).fingerprint() == before
    assert model(copied).pinned(before) == model(copied)
    with (copied / WEIGHTS).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    assert model(copied).fingerprint() != before


def in_a_clean_process(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_hub_name_resolves_to_a_commit_also_offline_if_it_was_used_before(tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "hub" / "models--org--known"
    (cache / "snapshots" / commit).mkdir(parents=True)
    (cache / "snapshots" / commit / CONFIG).write_text('{"model_type": "bert"}')
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    for absent in ("modules.json", "1_Pooling/config.json"):  # as the Hub has said then
        file = cache / ".no_exist" / commit / absent
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    script = """
from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
known = HuggingFaceModel(task="feature-extraction", name_or_path="org/known")
print(known.pinned(known.fingerprint()).revision)
try:
    known.model_copy(update={"name_or_path": "org/unknown"}).fingerprint()
except InvalidSpec as error:
    print(error)
"""
    out = in_a_clean_process(script, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1").splitlines()
    assert out[0] == commit
    assert out[1].startswith("model.name_or_path: 'org/unknown' at revision 'main'")
    assert "give a folder that contains the model" in out[1]


def test_importing_and_checking_load_neither_torch_nor_transformers(bert: Path) -> None:
    script = f"""
import sys
from tasks.kinds.models import HuggingFaceModel
model = HuggingFaceModel(task="text-classification", name_or_path={str(bert)!r})
model.check(), model.fingerprint(), model.input_columns
print(sorted({{"torch", "transformers", "ray", "prefect", "tokenizers"}} & set(sys.modules)))
"""
    assert in_a_clean_process(script).strip() == "[]"


@pytest.mark.parametrize("kind", ["bert", "t5", "gpt2", "xlm-roberta", "clip", "splinter"])
def test_a_tokenizer_without_words_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(json.dumps({"model_type": kind}))
    problem = r"has no vocabulary file for its .*Tokenizer: save the model's tokenizer"
    with pytest.raises(InvalidSpec, match=problem):
        Checkpoint(str(tmp_path)).tokenizer()


@pytest.mark.parametrize("kind", ["canine", "perceiver"])
def test_a_tokenizer_of_bytes_needs_no_words(kind: str, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(json.dumps({"model_type": kind}))
    assert Checkpoint(str(tmp_path)).tokenizer()("a")["input_ids"]
