"""Sounds made on the spot, in files of any format that FFmpeg writes."""

import io
from pathlib import Path

import numpy as np

from tasks.kinds.audio import Samples

LOSSLESS = {"wav": "pcm_s16le", "flac": "flac"}
CODECS = LOSSLESS | {"ogg": "libopus", "mp3": "libmp3lame", "mp4": "aac", "adts": "aac"}
CODECS |= {"webm": "libopus"}


def tone(seconds: float, sampling_rate: int, hertz: float = 440.0) -> Samples:
    """A pure tone, (time,) of float32."""
    at = np.arange(round(seconds * sampling_rate)) / sampling_rate
    return np.asarray(0.5 * np.sin(2 * np.pi * hertz * at), np.float32)


def encoded(channels: list[Samples], sampling_rate: int, form: str = "wav") -> bytes:
    """A sound file of one or two channels."""
    import av

    stream = io.BytesIO()
    with av.open(stream, "w", format=form) as container:
        layout = "mono" if len(channels) == 1 else "stereo"
        track = container.add_stream(CODECS[form], rate=sampling_rate, layout=layout)
        frame = av.AudioFrame.from_ndarray(np.stack(channels), format="fltp", layout=layout)
        frame.sample_rate = sampling_rate
        container.mux([*track.encode(frame), *track.encode(None)])
    return stream.getvalue()


def save(folder: Path, name: str, *channels: Samples, sampling_rate: int = 16_000) -> Path:
    """A file whose format its name says."""
    file = folder / name
    file.write_bytes(encoded([*channels], sampling_rate, file.suffix[1:]))
    return file
