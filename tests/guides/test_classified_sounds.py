"""What is heard in sound files, through the spec: what transformers' own pipeline says of each."""

from pathlib import Path
from typing import Any

import pytest

from flows.testing import RunSpec
from tasks.kinds.audio import decode_audio
from tests.kinds import sounds
from tests.kinds.tiny_listeners import LISTENERS

RATE, TOLERANCE = 16_000, 1e-5


@pytest.mark.prefect
@pytest.mark.parametrize("name", ["spectrogram transformer", "wav2vec2 by layer"])
def test_events_in_sound_files(run_spec: RunSpec, tmp_path: Path, name: str) -> None:
    from transformers import pipeline

    LISTENERS[name](tmp_path / "model")
    folder = tmp_path / "sounds"
    folder.mkdir()
    files = [
        sounds.save(
            folder,
            f"{at}.wav",
            sounds.tone(0.2 + 0.3 * at, 44_100, 150.0 * 2**at),
            sampling_rate=44_100,
        )
        for at in range(5)
    ]
    sounds.save(folder, "click.wav", sounds.tone(0.005, RATE))
    (folder / "cut.wav").write_bytes(files[0].read_bytes()[:3_000])
    done = run_spec(
        "deployments/specs/audio-classification.yaml",
        f"source.path={folder}",
        f"model.name_or_path={tmp_path / 'model'}",
        "errors.max_rejected_fraction=0.5",
    )
    reasons = {Path(row["source"]).name: row["error_message"] for row in done.set_aside}
    assert {*reasons} == {"click.wav", "cut.wav"}
    assert "the sound is 0.005 s long, but the model hears nothing in less" in reasons["click.wav"]
    library: Any = pipeline("audio-classification", str(tmp_path / "model"), device="cpu")
    assert [Path(row["path"]).name for row in done.rows] == [file.name for file in files]
    for row, file in zip(done.rows, files, strict=True):
        said = library(decode_audio(file.read_bytes(), RATE), top_k=3)
        assert row["predicted_label"] == [each["label"] for each in said]
        scores = [each["score"] for each in said]
        assert row["predicted_score"] == pytest.approx(scores, abs=TOLERANCE)
    assert "audio" not in done.table.column_names
