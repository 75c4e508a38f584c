"""Speech models write what transformers makes them write, sound by sound."""

import io
import json
import shutil
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flows.testing import RunSpec
from tasks.errors import InvalidSpec
from tasks.kinds.audio import Samples, audio_field
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.sounds import encoded, save, tone
from tests.kinds.tiny_models import VOCABULARY, predicted, rows_of
from tests.kinds.tiny_speech import RATE, save_whisper, sounds

TASK = "automatic-speech-recognition"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="session")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that listens for a second, of a few thousand random weights."""
    return save_whisper(tmp_path_factory.mktemp("whisper"))


def by_hand(folder: Path, given: list[Samples], **limit: Any) -> list[str]:
    """What transformers writes, without our code."""
    from transformers import AutoFeatureExtractor, AutoModelForSpeechSeq2Seq, AutoTokenizer

    listens = AutoFeatureExtractor.from_pretrained(folder)
    model = AutoModelForSpeechSeq2Seq.from_pretrained(folder)
    words = AutoTokenizer.from_pretrained(folder)
    written = []
    for each in given:
        features = listens(each, sampling_rate=RATE, return_tensors="pt").input_features
        out = model.generate(input_features=features, do_sample=False, **limit)
        written.append(words.decode(out[0], skip_special_tokens=True))
    return written


def test_words_have_nothing_of_what_fills_them_up(tmp_path: Path) -> None:
    """Not of a word either, where the tokenizer does not know the model's padding as such."""
    folder = save_whisper(tmp_path, exponential_decay_length_penalty=[2, 1.5])
    heard = sounds(7)
    rows = rows_of("audio", [each.tolist() for each in heard])
    found = predicted(folder, TASK, rows, max_new_tokens=8)["generated_text"].to_pylist()
    assert found == by_hand(folder, heard, max_new_tokens=8)
    assert len({*map(len, found)}) > 1
    assert not any("[PAD]" in each for each in found)


def test_more_words_than_the_model_can_write_are_refused(tmp_path: Path) -> None:
    """Where generating would fail for each sound, as if each were bad."""
    folder, rows = save_whisper(tmp_path, positions=80), rows_of("audio", [sounds(1)[0].tolist()])
    given = {"task": TASK, "name_or_path": str(folder), "options": {"max_new_tokens": 80}}
    model = HuggingFaceModel.model_validate(given)
    with pytest.raises(InvalidSpec, match=r"max_new_tokens: 80 .*: set at most \d+") as refused:
        model.check()
    most = int(str(refused.value).split("at most ")[1].split()[0])
    assert len(predicted(folder, TASK, rows, max_new_tokens=most)) == 1


@pytest.mark.parametrize("batch_size", [None, 1, 5])
def test_words_are_the_models_whatever_the_batch(whisper: Path, batch_size: int | None) -> None:
    given = sounds(12)
    rows = rows_of("audio", [each.tolist() for each in given])
    found = predicted(whisper, TASK, rows, batch_size, max_new_tokens=8)
    assert found["generated_text"].to_pylist() == by_hand(whisper, given, max_new_tokens=8)
    assert len(set(found["generated_text"].to_pylist())) > 4


def test_no_words_are_made_of_what_is_no_number(tmp_path: Path) -> None:
    import torch
    from transformers import WhisperForConditionalGeneration

    folder = save_whisper(tmp_path, suppress_tokens=[0])  # what is chosen of NaN
    model = WhisperForConditionalGeneration.from_pretrained(folder)
    with torch.no_grad():
        model.model.decoder.layer_norm.weight[0] = torch.nan
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match="gave no numbers for this row"):
        predicted(folder, TASK, rows_of("audio", [sounds(1)[0].tolist()]), max_new_tokens=8)


@pytest.mark.parametrize(
    ("limit", "tokens"), [({"max_length": 64}, 60), ({"max_new_tokens": 30}, 30), ({}, 75)]
)
def test_a_long_speech_is_written_to_the_models_own_limit(
    tmp_path: Path, limit: dict[str, int], tokens: int
) -> None:
    end, padding, unknown, start = VOCABULARY["[SEP]"], 0, 1, 2
    never = {"suppress_tokens": [end, padding, unknown, start, len(VOCABULARY)]}
    folder = save_whisper(tmp_path, positions=80, **never, **limit)
    given = sounds(3)
    found = predicted(folder, TASK, rows_of("audio", [each.tolist() for each in given]), 1)
    assert found["generated_text"].to_pylist() == by_hand(
        folder, given, **limit or {"max_length": 80}
    )
    assert all(len(each.split()) >= tokens for each in found["generated_text"].to_pylist())


def wav_of_nothing() -> bytes:
    """A sound file of no samples."""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        (None, "'audio' is empty"),
        ([], "'audio' is empty"),
        (wav_of_nothing(), "'audio' is empty"),
        ("a.wav", "'audio' has no sound in this row"),
        (7, "'audio' has no sound in this row"),
        ([0.0, None], "'audio' has no sound in this row"),
        ([0.0, float("nan")], "'audio' has no sound in this row"),
        ([0, 12000, -9000], "'audio' has no sound in this row; .* between -1 and 1"),
        ([[0.0, 0.1], [0.0, 0.1]], "'audio' has no sound in this row"),
        (b"no sound", "is not sound that can be read"),
        (encoded([tone(1.5, RATE)], RATE), r"1\.5 s long, but the model hears only 1 s"),
    ],
)
def test_what_cannot_be_heard_is_an_error(whisper: Path, sound: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        predicted(whisper, TASK, rows_of("audio", [sound]))


def test_samples_of_another_rate_are_not_heard_as_if_they_had_the_models(whisper: Path) -> None:
    """As a step has them that has cut a sound which the source decodes at that rate."""
    decoded = rows_of("audio", [sounds(1)[0].tolist()])

    def at(rate: int) -> pa.Table:
        field = audio_field("audio", rate).with_type(decoded["audio"].type)
        return decoded.set_column(1, field, decoded["audio"])

    assert predicted(whisper, TASK, at(RATE)).column(2) == predicted(whisper, TASK, decoded).column(
        2
    )
    of_one_length = pa.list_(pa.float64(), len(decoded["audio"][0]))
    refused = r"'audio' has samples of 8,000 Hz, .* needs 16,000 Hz: set"
    with pytest.raises(InvalidSpec, match=refused):
        predicted(whisper, TASK, at(8_000))
    decoded = decoded.set_column(1, "audio", decoded["audio"].cast(of_one_length))
    with pytest.raises(InvalidSpec, match=refused):
        predicted(whisper, TASK, at(8_000))
    files = rows_of("audio", [encoded([sounds(1)[0]], RATE)])
    files = files.set_column(1, audio_field("audio", 8_000), files["audio"])
    assert len(predicted(whisper, TASK, files)) == 1, "files are decoded at the model's rate"


def test_no_sounds_give_the_same_columns(whisper: Path) -> None:
    some = predicted(whisper, TASK, rows_of("audio", [sounds(1)[0].tolist()]))
    assert predicted(whisper, TASK, rows_of("audio", [b"x"])[:0]).schema.field(
        "generated_text"
    ) == some.schema.field("generated_text")


def test_a_language_that_the_model_does_not_know_is_refused(whisper: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="source_language: 'en' cannot be set"):
        predicted(whisper, TASK, rows_of("audio", []), source_language="en")
    many = shutil.copytree(whisper, tmp_path / "many")
    config = json.loads((many / "generation_config.json").read_text())
    config["lang_to_id"] = {"<|en|>": 4, "<|de|>": 5}
    (many / "generation_config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidSpec, match="'xx' is not among the model's languages: de, en"):
        predicted(many, TASK, rows_of("audio", []), source_language="xx")


@pytest.mark.prefect
def test_sound_files(run_spec: RunSpec, whisper: Path, tmp_path: Path) -> None:
    from tasks.kinds.audio import decode_audio

    folder = tmp_path / "calls"
    folder.mkdir()
    files = [save(folder, f"{at}.wav", each) for at, each in enumerate(sounds(4))]
    save(folder, "long.wav", tone(2.0, RATE))
    given = f"source.path={folder}", f"model.name_or_path={whisper}"
    more = "model.options={max_new_tokens: 8}", "errors.max_rejected_fraction=0.5"
    done = run_spec("deployments/specs/speech.yaml", *given, *more)
    assert [Path(row["source"]).name for row in done.set_aside] == ["long.wav"]
    heard = [decode_audio(file.read_bytes(), RATE) for file in files]
    wanted = by_hand(whisper, heard, max_new_tokens=8)
    assert [row["generated_text"] for row in done.rows] == wanted
