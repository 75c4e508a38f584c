"""Sound files: a row each, encoded, with what the file says of its length."""

import importlib.util
from pathlib import Path

import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.columns import to_numpy
from tasks.kinds.places import check_source
from tasks.kinds.sources import AudioSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tests.kinds.sounds import save, tone
from tests.kinds.sources.reading import read_all


def test_a_row_a_file(tmp_path: Path) -> None:
    first = save(tmp_path, "a.wav", tone(0.5, 8_000), sampling_rate=8_000)
    second = save(tmp_path, "b.flac", tone(0.25, 8_000), sampling_rate=8_000)
    (tmp_path / "notes.txt").write_text("no sound")
    rows = read_all(AudioSource(path=str(tmp_path)))
    seconds = [0.5, 0.25]
    assert rows == [
        {"path": str(file), "audio": file.read_bytes(), "sampling_rate": 16_000, "seconds": length}
        for file, length in zip((first, second), seconds, strict=True)
    ]


def test_samples_come_at_the_rate_asked_for(tmp_path: Path) -> None:
    save(tmp_path, "a.wav", tone(0.5, 16_000))
    source = AudioSource(path=str(tmp_path), sampling_rate=8_000)
    storage, (stat,) = list_inputs(source)
    (shard,) = source.split(storage, stat)
    (read,) = source.read(storage, shard, {})
    assert not isinstance(read, BadRow)
    assert to_numpy(read)["audio"].shape == (1, 4_000)


def test_what_is_no_sound_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.mp3").write_bytes(b"")
    (tmp_path / "b.wav").write_bytes(b"RIFF what is this")
    found = read_all(AudioSource(path=str(tmp_path)))
    assert [str(row.error)[:12] for row in found] == ["the file has", "the sound is"]


def test_without_the_decoder_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, "a.wav", tone(0.1, 16_000))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidSpec, match=r"source.kind: 'audio' .*prefect-ray-data\[audio\]"):
        check_source(AudioSource(path=str(tmp_path)))
