"""Sounds that cannot be heard, and models that do not classify them, are refused."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds import audio
from tasks.kinds.models import HuggingFaceModel
from tests.kinds.sounds import tone
from tests.kinds.tiny_listeners import LISTENERS, saved_listeners
from tests.kinds.tiny_models import predicted, rows_of, save_bert
from tests.kinds.tiny_speech import RATE, save_whisper, sounds

TASK = "audio-classification"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder a type of model."""
    return saved_listeners(tmp_path_factory.mktemp("listeners"))


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        (None, "'audio' is empty"),
        ([], "'audio' is empty"),
        ([0.0, float("nan")], "'audio' has no sound in this row"),
        (b"no sound", "is not sound that can be read"),
    ],
)
def test_what_cannot_be_heard_is_an_error(
    folders: dict[str, Path], sound: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        predicted(folders["wav2vec2"], TASK, rows_of("audio", [sound]))


def test_sounds_that_are_too_much_together_are_asked_for_in_parts(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio, "MAX_DECODED_BYTES", 4 * RATE)
    rows = rows_of("audio", [tone(0.6, RATE).tolist()] * 3)
    with pytest.raises(MemoryError, match=r"2 of 3 sounds take 76,800 bytes; at most 64,000 do"):
        predicted(folders["wav2vec2"], TASK, rows)
    assert len(predicted(folders["wav2vec2"], TASK, rows[:1])) == 1


def test_models_for_other_tasks_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    def check(folder: Path, task: str) -> None:
        HuggingFaceModel.model_validate({"task": task, "name_or_path": str(folder)}).check()

    save_bert(tmp_path / "bert")
    save_whisper(tmp_path / "whisper")
    wants = "audio-classification needs a model whose name has ForAudioClassification"
    for other in ("bert", "whisper"):
        with pytest.raises(InvalidSpec, match=wants):
            check(tmp_path / other, TASK)
    listener = "which classifies sounds, not texts: set model.task to audio-classification"
    for text_task in ("text-classification", "feature-extraction"):
        with pytest.raises(InvalidSpec, match=listener):
            check(folders["wav2vec2"], text_task)
    with pytest.raises(InvalidSpec, match=r"is Wav2Vec2ForSeq.*; automatic-speech-recognition"):
        check(folders["wav2vec2"], "automatic-speech-recognition")
    for name in LISTENERS:
        check(folders[name], TASK)
    deaf = shutil.copytree(folders["wav2vec2"], tmp_path / "deaf")
    (deaf / "preprocessor_config.json").unlink()
    with pytest.raises(InvalidSpec, match="has no feature extractor"):
        check(deaf, TASK)


def test_a_feature_extractor_of_another_model_is_refused(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    mixed = shutil.copytree(folders["wav2vec2-bert"], tmp_path / "mixed")
    name = "preprocessor_config.json"
    shutil.copy(folders["wav2vec2"] / name, mixed / name)
    problem = "has a feature extractor that makes input_values, but its model takes input_features"
    with pytest.raises(InvalidSpec, match=problem):
        predicted(mixed, TASK, rows_of("audio", [sounds(1)[0].tolist()]))


def test_weights_that_are_missing_are_named(folders: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    lacking = shutil.copytree(folders["wav2vec2"], tmp_path / "lacking")
    weights = load_file(lacking / "model.safetensors")
    rows = rows_of("audio", [sounds(1)[0].tolist()])

    def without(part: str) -> None:
        kept = {name: values for name, values in weights.items() if part not in name}
        assert len(kept) < len(weights)
        save_file(kept, lacking / "model.safetensors", {"format": "pt"})

    without("masked_spec_embed")  # which stands for what training leaves out
    assert len(predicted(lacking, TASK, rows)) == 1
    without("classifier")
    with pytest.raises(InvalidSpec, match=r"lacks weights .*\(classifier.bias, classifier.weight"):
        predicted(lacking, TASK, rows)


def test_what_holds_no_sounds_is_refused_by_its_type() -> None:
    for task in (TASK, "automatic-speech-recognition"):
        model = HuggingFaceModel.model_validate({"task": task, "name_or_path": "some/one"})
        for kind in (pa.binary(), pa.list_(pa.float32()), pa.list_(pa.float64(), 9), pa.null()):
            model.refuse_types(pa.schema([("audio", kind)]))
        with pytest.raises(InvalidSpec, match=r"is string, not sounds.* read the"):
            model.refuse_types(pa.schema([("audio", pa.string())]))
        with pytest.raises(InvalidSpec, match="'audio' is double, not sounds"):
            model.refuse_types(pa.schema([("audio", pa.float64())]))


def test_options_of_texts_are_refused() -> None:
    options = {"max_length": 9}
    with pytest.raises(ValidationError, match="audio-classification, which takes top_k"):
        HuggingFaceModel(task=TASK, name_or_path="some/one", options=options)
