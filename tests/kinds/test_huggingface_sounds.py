"""Classifiers of sounds say what transformers' own pipeline says, whatever lies beside a sound."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.audio import Samples, audio_field
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.sounds import Listener, SoundInputs
from tasks.kinds.models.model import Placement
from tasks.kinds.models.torch_threads import torch_threads
from tests.kinds.sounds import encoded, tone
from tests.kinds.tiny_listeners import (
    LISTENERS,
    MIXES_LENGTHS,
    SHORTEST,
    WORDS,
    of_samples,
    saved_listeners,
)
from tests.kinds.tiny_models import predicted, rows_of
from tests.kinds.tiny_speech import RATE, sounds

TASK = "audio-classification"
TOLERANCE = 1e-5
ALL = len(WORDS)
pytestmark = pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")
"""WavLM's, which gives torch a mask of another type."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder a type of model."""
    return saved_listeners(tmp_path_factory.mktemp("listeners"))


def given() -> list[Samples]:
    """Sounds of many lengths, of which some are the same, and silence among them."""
    many = sounds(8)
    return [*many, many[3][::-1].copy(), many[3] * 0.5, np.zeros(len(many[5]), np.float32)]


def by_pipeline(folder: Path, heard: list[Samples]) -> list[dict[str, float]]:
    """Labels and their scores, of each sound alone."""
    from transformers import pipeline

    library: Any = pipeline(TASK, str(folder), device="cpu")
    return [{one["label"]: one["score"] for one in library(each, top_k=ALL)} for each in heard]


def by_ours(
    folder: Path, heard: list[Samples], batch_size: int | None = None
) -> list[dict[str, float]]:
    """The same, as the kind gives it."""
    rows = rows_of("audio", pa.array([each.tolist() for each in heard], pa.list_(pa.float32())))
    found = predicted(folder, TASK, rows, batch_size, top_k=ALL).to_pylist()
    for row in found:
        assert row["predicted_score"] == sorted(row["predicted_score"], reverse=True)
    pairs = ((row["predicted_label"], row["predicted_score"]) for row in found)
    return [dict(zip(*each, strict=True)) for each in pairs]


@pytest.mark.parametrize("batch_size", [None, 1, 4])
@pytest.mark.parametrize("name", LISTENERS)
def test_scores_are_those_of_the_pipeline(
    folders: dict[str, Path], name: str, batch_size: int | None
) -> None:
    heard, theirs = given(), by_pipeline(folders[name], given())
    ours = by_ours(folders[name], heard, batch_size)
    for mine, its in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(its, abs=TOLERANCE)
    firsts = [max(its.values()) for its in theirs]
    assert max(firsts) - min(firsts) > 100 * TOLERANCE, "else it would not show whose they are"


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_scores_are_what_the_model_was_trained_to_give(
    folders: dict[str, Path], tmp_path: Path, problem: str
) -> None:
    several = shutil.copytree(folders["spectrogram transformer"], tmp_path / "several")
    config = json.loads((several / "config.json").read_text())
    (several / "config.json").write_text(json.dumps({**config, "problem_type": problem}))
    theirs = by_pipeline(several, given())
    for mine, its in zip(by_ours(several, given()), theirs, strict=True):
        assert mine == pytest.approx(its, abs=TOLERANCE)
    assert any(abs(sum(its.values()) - 1) > 0.1 for its in theirs)


def test_a_lone_class_has_the_score_that_the_pipeline_gives_it(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    from transformers import AutoModelForAudioClassification

    lone = shutil.copytree(folders["spectrogram transformer"], tmp_path / "lone")
    model: Any = AutoModelForAudioClassification.from_pretrained(
        lone, num_labels=1, ignore_mismatched_sizes=True
    )
    model.save_pretrained(lone)
    heard = given()[:3]
    rows = rows_of("audio", pa.array([each.tolist() for each in heard], pa.list_(pa.float32())))
    found = predicted(lone, TASK, rows)["predicted_score"].to_pylist()
    assert found == [score for each in by_pipeline(lone, heard) for score in each.values()]


def test_weights_of_older_releases_are_read(folders: dict[str, Path], tmp_path: Path) -> None:
    """As nearly all of the Hub's are: pickled, some under other names."""
    import torch
    from safetensors.torch import load_file

    old = shutil.copytree(folders["wav2vec2"], tmp_path / "old")
    names = {"parametrizations.weight.original0": "weight_g"}
    names |= {"parametrizations.weight.original1": "weight_v"}
    renamed = {}
    for name, values in load_file(old / "model.safetensors").items():
        for own, former in names.items():
            name = name.replace(own, former)
        renamed[name] = values
    assert sum("weight_g" in name for name in renamed) == 1
    torch.save(renamed, old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    heard = given()
    # Where weights lie in memory decides how some CPUs add up: to the last bit they are not equal.
    for mine, its in zip(by_ours(old, heard), by_ours(folders["wav2vec2"], heard), strict=True):
        assert mine == pytest.approx(its, abs=TOLERANCE)


@pytest.mark.parametrize("name", LISTENERS)
def test_lengths_share_a_batch_where_padding_is_not_heard(
    folders: dict[str, Path], name: str
) -> None:
    checkpoint, placement = Checkpoint(str(folders[name])), Placement()
    model = checkpoint.model("AutoModelForAudioClassification", placement)
    inputs = SoundInputs(checkpoint, model, placement)
    kind = HuggingFaceModel(task=TASK, name_or_path=str(folders[name]))
    lengths = [len(each) for each in given()]
    rows = kind.preprocessor()(rows_of("audio", [each.tolist() for each in given()]))
    batches = [(index, arguments) for index, arguments in inputs.batches(rows)]
    assert sorted(at for index, _ in batches for at in index) == [*range(len(lengths))]
    if name in MIXES_LENGTHS:
        assert len(batches) < len(set(lengths))
        masks = [each["attention_mask"] for _, each in batches if "attention_mask" in each]
        assert masks
        assert not any(each.all() for each in masks)
        return
    assert all("attention_mask" not in arguments for _, arguments in batches)
    if name not in ("spectrogram transformer", "whisper"):
        assert len(batches) == len(set(lengths)), "one for each length"
        for index, _ in batches:
            assert len({lengths[at] for at in index}) == 1
    else:
        assert len(batches) == 1


def test_more_than_memory_may_hold_is_no_batch(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.kinds.models.hf.sounds.NUMBERS_PER_BATCH_ON_CPU", 40_000)
    monkeypatch.setattr("tasks.kinds.models.hf.sounds.ENOUGH_NUMBERS_ON_CPU", 20_000)
    checkpoint, placement = Checkpoint(str(folders["wav2vec2 by layer"])), Placement()
    model = checkpoint.model("AutoModelForAudioClassification", placement)
    inputs = SoundInputs(checkpoint, model, placement)
    kind = HuggingFaceModel(task=TASK, name_or_path=str(folders["wav2vec2 by layer"]))
    rows = kind.preprocessor()(rows_of("audio", [each.tolist() for each in sounds(20)]))
    sizes = [each["input_values"].numel() for _, each in inputs.batches(rows)]
    assert max(sizes) <= 40_000
    placement.limit.halve(2)
    assert max(each["input_values"].numel() for _, each in inputs.batches(rows)) <= 20_000


def test_the_best_label_stands_alone_unless_more_are_wanted(folders: dict[str, Path]) -> None:
    folder, rows = folders["wav2vec2"], rows_of("audio", [each.tolist() for each in sounds(6)])
    one, two = (predicted(folder, TASK, rows, top_k=each) for each in (1, 2))
    assert one["predicted_label"].to_pylist() == [
        each[0] for each in two["predicted_label"].to_pylist()
    ]
    assert {len(each) for each in two["predicted_score"].to_pylist()} == {2}
    assert len({*one["predicted_label"].to_pylist()}) > 1
    none = predicted(folder, TASK, rows_of("audio", [b"x"])[:0])
    assert none.schema.field("predicted_score") == one.schema.field("predicted_score")


@pytest.mark.parametrize(
    ("name", "shortest"),
    [
        ("wav2vec2", SHORTEST),
        ("sew", SHORTEST + 5 * 4 * 4),  # which makes one vector of two
        ("wav2vec2-bert", 560),
        ("spectrogram transformer", 400),
        ("whisper", 1),
    ],
)
def test_a_sound_of_less_than_a_model_hears_is_an_error(
    folders: dict[str, Path], name: str, shortest: int
) -> None:
    barely = [tone(shortest / RATE, RATE), tone(0.3, RATE)]
    assert len(barely[0]) == shortest
    theirs = by_pipeline(folders[name], barely)
    for mine, its in zip(by_ours(folders[name], barely), theirs, strict=True):
        assert mine == pytest.approx(its, abs=TOLERANCE)
    with pytest.raises(ValueError, match=r"model hears nothing in less|is empty in"):
        by_ours(folders[name], [barely[0][:-1]])


@pytest.mark.parametrize(
    ("name", "seconds"), [("spectrogram transformer", "0.7"), ("whisper", "1.0")]
)
def test_what_a_model_listens_to_no_longer_is_cut_off_and_told_once(
    folders: dict[str, Path], name: str, seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = [tone(0.3, RATE), *(tone(2.0 + at, RATE, 300.0) for at in range(3))]
    ours = by_ours(folders[name], heard)
    assert capsys.readouterr().out.count(f"sounds longer than {seconds} s are cut off") == 1
    for mine, its in zip(ours, by_pipeline(folders[name], heard), strict=True):
        assert mine == pytest.approx(its, abs=TOLERANCE)
    by_ours(folders[name], heard[:1])
    by_ours(folders["wav2vec2"], heard)
    assert "cut off" not in capsys.readouterr().out


def test_files_are_heard_at_the_models_rate_and_samples_of_another_are_refused(
    folders: dict[str, Path],
) -> None:
    from tasks.kinds.audio import decode_audio

    file = encoded([tone(0.5, 44_100), tone(0.5, 44_100, 200.0)], 44_100)
    field = audio_field("audio", 8_000)
    rows = rows_of("audio", [file])
    rows = rows.set_column(1, field, rows["audio"])
    (row,) = predicted(folders["wav2vec2"], TASK, rows, top_k=ALL).to_pylist()
    (its,) = by_pipeline(folders["wav2vec2"], [decode_audio(file, RATE)])
    mine = dict(zip(row["predicted_label"], row["predicted_score"], strict=True))
    assert mine == pytest.approx(its, abs=TOLERANCE)
    samples = rows_of("audio", [tone(0.5, 8_000).tolist()])
    samples = samples.set_column(1, field.with_type(samples["audio"].type), samples["audio"])
    with pytest.raises(InvalidSpec, match=r"has samples of 8,000 Hz, .* needs 16,000"):
        predicted(folders["wav2vec2"], TASK, samples)


def test_half_precision_says_the_same(tmp_path: Path) -> None:
    of_samples("Wav2Vec2", feat_extract_norm="layer")(tmp_path)
    kind = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path))
    rows = kind.preprocessor()(rows_of("audio", [each.tolist() for each in sounds(6)]))
    whole, half = (
        kind.predictor(Placement(dtype=each))(rows)["predicted_score"].to_pylist()
        for each in ("float32", "bfloat16")
    )
    assert half == pytest.approx(whole, abs=0.1)


class Torchaudio:
    """As many columns as torchaudio makes of a sound; it is not there in tests."""

    @staticmethod
    def fbank(waveform: Any, *, sample_frequency: int, num_mel_bins: int, **_: Any) -> Any:
        import torch

        frame, hop = (int(sample_frequency * each * 0.001) for each in (25.0, 10.0))
        return torch.ones(1 + (waveform.shape[-1] - frame) // hop, num_mel_bins)


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100])
@pytest.mark.parametrize("has_torchaudio", [False, True])
def test_a_sound_is_cut_where_the_last_column_ends(
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rate: int,
    has_torchaudio: bool,
) -> None:
    from transformers import ASTFeatureExtractor
    from transformers.models.audio_spectrogram_transformer import (
        feature_extraction_audio_spectrogram_transformer as extraction,
    )

    monkeypatch.setattr(extraction, "is_speech_available", lambda: has_torchaudio)
    monkeypatch.setattr(extraction, "ta_kaldi", Torchaudio, raising=False)
    shutil.copytree(folders["spectrogram transformer"], tmp_path / "model")
    made = ASTFeatureExtractor(sampling_rate=rate, num_mel_bins=16, max_length=64)
    made.save_pretrained(tmp_path / "model")
    listener = Listener.of(Checkpoint(str(tmp_path / "model")))
    listener.extractor.max_length = 1_000
    assert listener.longest
    for samples, columns in ((listener.longest, 64), (listener.longest - 1, 63)):
        found = listener.features(np.zeros(samples, np.float32))
        assert int((found != found[-1]).any(axis=-1).sum()) == columns
