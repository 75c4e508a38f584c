"""Sound as it lies about in the world becomes mono float32 samples, or a reason why not."""

import io
import struct
import wave
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tasks.kinds import audio
from tasks.kinds.audio import audio_field, decode_audio, decode_audio_column, seconds_of
from tasks.kinds.columns import to_numpy, to_pandas
from tasks.kinds.media import decode_media_columns
from tasks.kinds.models.hf.samples import samples_of
from tests.kinds.sounds import encoded, save, tone

RATE = 16_000
TOLERANCES = {"wav": 1e-4, "flac": 1e-4, "ogg": 0.02, "mp3": 0.02}


@pytest.mark.parametrize("form", TOLERANCES)
@pytest.mark.parametrize("rate", [RATE, 48_000])
def test_formats_rates_and_channels(form: str, rate: int) -> None:
    data = encoded([tone(1, rate), 0 * tone(1, rate)], rate, form)
    samples = decode_audio(data, RATE)
    assert samples.dtype == np.float32
    expected = tone(1, RATE) / 2  # the mean of a tone and silence
    assert abs(len(samples) - RATE) <= 0.05 * RATE  # what encoders pad
    difference = samples[200 : RATE - 200] - expected[200:-200]
    assert np.abs(difference).max() < TOLERANCES[form]
    assert seconds_of(data) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("channels", [3, 8, 9, 16])
def test_the_mean_of_many_channels_is_heard(channels: int) -> None:
    """As of an array of microphones; PyAV read beyond the eighth, which ended the process."""
    parts = np.arange(1, channels + 1) / channels
    together = np.round(32_767 * np.outer(tone(0.5, RATE), parts)).astype("<i2")
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((channels, 2, RATE, 0, "NONE", ""))
        file.writeframes(together.tobytes())
    heard = decode_audio(stream.getvalue(), RATE)
    np.testing.assert_allclose(heard, tone(0.5, RATE) * parts.mean(), atol=1e-4)


def test_samples_at_their_own_rate_are_as_they_were() -> None:
    sound = tone(0.1, RATE)
    written = np.round(sound * 32768).clip(-32768, 32767) / 32768
    np.testing.assert_allclose(decode_audio(encoded([sound], RATE), RATE), written, atol=4e-5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "zero bytes"),
        (b"hello" * 99, "not sound"),
        (encoded([tone(1, RATE)], RATE)[:20_000], "cut off: 20,000 of 32,0"),
        (encoded([tone(3, RATE)], RATE, "flac")[:-9_000], "cut off or corrupt"),
        (encoded([tone(3, RATE)], RATE, "mp3")[:4_000], "cut off: 4,000 of 9,"),
        (encoded([tone(3, RATE)], RATE, "ogg")[:9_000], "cut off: 9,000 of 9,588"),
    ],
    ids=["empty", "text", "wav", "flac", "mp3", "ogg"],
)
def test_what_is_no_sound_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_audio(data, RATE)


def test_a_list_of_other_files_is_no_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a stranger would hear what lies in the folder where a worker runs."""
    save(tmp_path, "mine.wav", tone(1, RATE))
    monkeypatch.chdir(tmp_path)
    for hear in (partial(decode_audio, sampling_rate=RATE), seconds_of):
        with pytest.raises(ValueError, match="not sound that can be read"):
            hear(b"ffconcat version 1.0\nfile 'mine.wav'\n")


ID3 = b"ID3\4\0\0\0\0\0\x14" + b"TIT2\0\0\0\x0a\0\0\3a title!!"
MP3 = encoded([tone(3, RATE)], RATE, "mp3")


@pytest.mark.parametrize(
    "behind",
    [bytes(1), bytes(417), bytes(5_000), b"words " * 99, ID3, b"TAG" + bytes(125), b"\xff"],
    ids=["a zero", "as a frame", "zeros", "words", "ID3", "ID3v1", "half a sync"],
)
def test_what_stands_behind_an_mp3_files_sound_is_passed_over(behind: bytes) -> None:
    whole, heard = decode_audio(MP3, RATE), decode_audio(MP3 + behind, RATE)
    # FFmpeg leaves the encoder's padding there where the file is longer than its first frame says.
    assert 0 <= len(heard) - len(whole) < 0.1 * RATE
    np.testing.assert_array_equal(heard[: len(whole)], whole)


def test_an_mp3_file_that_is_joined_of_several_is_heard_to_its_end() -> None:
    other = encoded([tone(2, RATE, 880)], RATE, "mp3")
    heard = decode_audio(ID3 + MP3 + ID3 + other, RATE)
    assert len(heard) / RATE == pytest.approx(5, abs=0.2)
    loudest = np.fft.rfft(heard[-RATE:])[1:]
    assert abs(loudest).argmax() + 1 == pytest.approx(880, abs=2)


@pytest.mark.parametrize("form", ["mp3", "adts"])
def test_channels_and_rate_may_change_midway(form: str) -> None:
    stereo = encoded([tone(2, 44_100), tone(2, 44_100)], 44_100, form)
    mono = encoded([tone(2, RATE)], RATE, form)
    assert len(decode_audio(stereo + mono, RATE)) / RATE == pytest.approx(4, abs=0.3)


def test_a_hole_in_an_mp3_file_is_no_title() -> None:
    middle = len(MP3) // 2
    for hole in (bytes(2_000), b"\x55" * 2_000):
        with pytest.raises(ValueError, match="cut off or corrupt"):
            decode_audio(MP3[:middle] + hole + MP3[middle + len(hole) :], RATE)


def test_the_length_is_no_guess_by_the_size() -> None:
    """FFmpeg takes it that all packets of a format without a header are like the first ones."""
    sound = np.concatenate([0 * tone(2, RATE), tone(2, RATE)])
    assert seconds_of(encoded([sound], RATE, "adts")) == pytest.approx(4, abs=0.2)


def test_a_sound_that_ends_too_early_is_no_shorter_sound() -> None:
    whole = encoded([tone(3, RATE)], RATE, "flac")
    # The header still promises three seconds; the middle is gone, and FFmpeg goes on behind it.
    damaged = whole[:-12_000] + bytes(6_000) + whole[-6_000:]
    with pytest.raises(ValueError, match=r"ends after|corrupt"):
        decode_audio(damaged, RATE)


def test_a_webm_file_that_is_cut_off_is_no_shorter_sound() -> None:
    whole = encoded([tone(3, RATE)], RATE, "webm")
    assert len(decode_audio(whole, RATE)) == 3 * RATE
    for end in (-1, len(whole) // 2):
        for read in (seconds_of, partial(decode_audio, sampling_rate=RATE)):
            with pytest.raises(ValueError, match="the sound is cut off: "):
                read(whole[:end])
    start = whole.index(b"\x18\x53\x80\x67") + 4
    as_it_came = whole[:start] + b"\x01" + b"\xff" * 7 + whole[start + 8 :]
    assert len(decode_audio(as_it_came, RATE)) == 3 * RATE


def test_a_wav_file_from_a_pipe_has_no_length() -> None:
    whole = encoded([tone(0.5, RATE)], RATE)
    piped = whole[:4] + struct.pack("<I", 0xFFFFFFFF) + whole[8:]
    assert len(decode_audio(piped, RATE)) == RATE // 2


def test_sound_that_grows_too_long_is_not_decoded_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    second, two = (encoded([tone(length, RATE)], RATE) for length in (1, 2))
    monkeypatch.setattr(audio, "MAX_DECODED_BYTES", 4 * RATE)
    rows = pa.table([[second] * 3], schema=pa.schema([audio_field("audio")]))
    assert decode_media_columns(rows.slice(0, 1)).num_rows == 1
    with pytest.raises(MemoryError, match="2 of 3 sounds take 128,000 bytes; at most 64,000 do"):
        decode_media_columns(rows)
    with pytest.raises(ValueError, match=r"longer than 1 s, .* at 16,000 Hz: split it"):
        decode_audio(two, RATE)
    with pytest.raises(ValueError, match="split it"):
        samples_of(two, RATE, "audio")


def test_user_code_gets_samples() -> None:
    sounds = [encoded([tone(seconds, RATE)], RATE) for seconds in (0.1, 0.2)]
    rows = pa.table([[*sounds, None]], schema=pa.schema([audio_field("audio", 8_000)]))
    decoded = decode_media_columns(rows)
    assert decoded.schema.field("audio").type == pa.list_(pa.float32())
    assert [value and len(value) for value in decoded["audio"].to_pylist()] == [800, 1600, None]
    arrays = to_numpy(rows.slice(0, 2))["audio"]
    assert [(each.dtype, each.shape) for each in arrays] == [("f4", (800,)), ("f4", (1600,))]
    assert to_numpy(rows.slice(0, 1))["audio"].shape == (1, 800)
    np.testing.assert_array_equal(to_pandas(rows)["audio"][1], arrays[1])


def test_no_rows_are_no_samples() -> None:
    empty = pa.chunked_array([], pa.binary())
    assert decode_audio_column(empty, RATE).type == pa.list_(pa.float32())
