"""Decodes sound as it lies about in the world: one way in, mono float32 samples out."""

import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.kinds.column_types import AUDIO, MEDIA
from tasks.kinds.ffmpeg_files import opened
from tasks.kinds.sound_lengths import promised_bytes

Samples = npt.NDArray[np.float32]

SAMPLING_RATE = b"sampling_rate"
"""Field metadata: the rate in Hz at which a column of encoded sound is decoded."""
DEFAULT_RATE = 16_000
"""What nearly all speech models are trained with."""
ESTIMATED = ("mp3", "aac")
"""Formats that need not say how long they are; FFmpeg guesses from the size."""
MAX_DECODED_BYTES = 2 << 30
"""Of one sound, and of a column's where there are several: nine hours at 16 kHz."""
PADDED_SECONDS = 0.3
"""What encoders put before and behind a sound is less; it is no part of what is promised."""
MISSING_SECONDS = 0.1
"""What encoders pad and decoders skip is less."""
MP3_SYNC = re.compile(rb"\xff[\xe0-\xff]")
"""How each frame of an MP3 file begins."""
MP3_TITLES = (b"ID3", b"TAG", b"APETAGEX", b"LYRICSBEGIN")
"""How what names title and artist begins."""


def audio_field(name: str, sampling_rate: int = DEFAULT_RATE) -> pa.Field:
    """A column of encoded sound, to be decoded at a rate in Hz."""
    rate = str(sampling_rate).encode()
    return pa.field(name, pa.binary(), metadata={MEDIA: AUDIO, SAMPLING_RATE: rate})


def audio_rate(field: pa.Field) -> int:
    """The rate in Hz at which a column of encoded sound is to be decoded."""
    return int((field.metadata or {}).get(SAMPLING_RATE, DEFAULT_RATE))


def decode_audio_column(column: pa.ChunkedArray, sampling_rate: int) -> pa.Array:
    """A column of encoded sound as lists of samples.

    Raises:
        ValueError: one of them cannot be decoded.
        MemoryError: several of them are too much; fewer at a time may fit.
    """
    sounds, size = list[Samples | None](), 0
    for value in column:
        sound = decode_audio(value.as_py(), sampling_rate) if value.is_valid else None
        size += 0 if sound is None else sound.nbytes
        refuse_too_many(len(sounds) + 1, len(column), size)
        sounds.append(sound)
    lengths = [0 if sound is None else len(sound) for sound in sounds]
    present = [sound for sound in sounds if sound is not None]
    flat = np.concatenate(present) if present else np.empty(0, np.float32)
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    missing = pa.array([sound is None for sound in sounds], pa.bool_())
    return pa.ListArray.from_arrays(offsets, pa.array(flat), mask=missing)


def refuse_too_many(these: int, of: int, size: int) -> None:
    """See that sounds are not too much together; each by itself has been looked at.

    Args:
        these: how many they are.
        of: sounds that there are in all.
        size: bytes of these.

    Raises:
        MemoryError: they are; fewer at a time may fit.
    """
    if these > 1 and size > MAX_DECODED_BYTES:
        given = f"{these} of {of} sounds take {size:,} bytes"
        raise MemoryError(f"{given}; at most {MAX_DECODED_BYTES:,} do")


def decode_audio(data: bytes, sampling_rate: int) -> Samples:
    """Decode a sound file.

    Args:
        data: the file's bytes, in any format that FFmpeg knows.
        sampling_rate: of the result, in Hz.

    Returns:
        Samples, (time,) of float32 between -1 and 1; the mean of the channels.

    Raises:
        ValueError: it is empty, holds no sound, is cut off, corrupt or too long; says which.
    """
    import av

    with open_sound(data) as container:
        try:
            found = list(not_too_many(resampled(container, sampling_rate), sampling_rate))
        except av.error.FFmpegError as error:
            raise ValueError(f"the sound is cut off or corrupt: {error.strerror}") from error
        samples: Samples = np.concatenate(found) if found else np.empty(0, np.float32)
        see_that_all_came(container, len(samples) / sampling_rate)
    return samples


def seconds_of(data: bytes) -> float | None:
    """How long a sound file is by its header, else by its packets; None where neither says.

    Raises:
        ValueError: it is empty, corrupt, or holds no sound.
    """
    with open_sound(data) as container:
        promised = promised_seconds(container.streams.audio[0])
        if container.format.name not in ESTIMATED:
            return promised
        counted = counted_seconds(container)
    is_known = promised is not None and 0 <= counted - promised < PADDED_SECONDS
    return promised if is_known else counted


def counted_seconds(container: Any) -> float:
    """How long a sound is by its packets, of which none is decoded.

    Raises:
        ValueError: it is corrupt.
    """
    import av

    stream = container.streams.audio[0]
    try:
        return float(stream.time_base * sum(each.duration or 0 for each in container.demux(stream)))
    except av.error.FFmpegError as error:
        raise ValueError(f"the sound is cut off or corrupt: {error.strerror}") from error


def open_sound(data: bytes) -> Any:
    """A sound file as PyAV's container.

    Raises:
        ValueError: it is empty, cut off, or holds no sound.
    """
    import av

    if not data:
        raise ValueError("the file has zero bytes")
    promised = promised_bytes(data)
    if len(data) < promised:
        raise ValueError(f"the sound is cut off: {len(data):,} of {promised:,} bytes")
    try:
        container = opened(io.BytesIO(data))
    except av.error.FFmpegError as error:
        raise ValueError("the file is not sound that can be read") from error
    if not container.streams.audio:
        container.close()
        raise ValueError("the file contains no sound")
    if container.streams.audio[0].codec_context is None:
        container.close()
        raise ValueError("the sound is in a format that FFmpeg does not know")
    return container


def resampled(container: Any, sampling_rate: int) -> Iterator[Samples]:
    """The sound in pieces, at a rate; one channel, since models listen with one ear."""
    import av

    resampler, form = None, None
    for frame in frames_of(container):
        found = (frame.format.name, frame.layout.name, frame.sample_rate)
        if found != form:  # what was joined of several recordings may change midway
            yield from mixed(resampler, None)
            # Channels are mixed here: the resampler's own mix of two is louder than each of them.
            # Of eight and more that lie apart, PyAV reads beyond the last.
            resampler, form = av.AudioResampler(format="flt", rate=sampling_rate), found
        yield from mixed(resampler, frame)
    yield from mixed(resampler, None)


def mixed(resampler: Any, frame: Any) -> Iterator[Samples]:
    """A frame's pieces as one channel; of None, what the resampler still holds, if there is one."""
    for piece in resampler.resample(frame) if resampler else ():
        channels = piece.to_ndarray().reshape(-1, piece.layout.nb_channels).T
        yield channels.mean(axis=0, dtype=np.float32)


def frames_of(container: Any) -> Iterator[Any]:
    """The frames of sound.

    In an MP3 file there may be titles between them and anything behind the last: players pass both
    over, and FFmpeg hands them out as if they were sound.

    Raises:
        av.error.FFmpegError: something else is no sound.
    """
    import av

    no_sound = None
    for packet in container.demux(audio=0):
        data = bytes(packet)
        try:
            frames = packet.decode()
        except av.error.FFmpegError as error:
            if container.format.name != "mp3" or MP3_SYNC.match(data):
                raise
            if not data.startswith(MP3_TITLES):
                no_sound = error
            continue
        if no_sound and frames and data:
            raise no_sound  # a hole: there is more behind it
        yield from frames


def not_too_many(pieces: Iterator[Samples], sampling_rate: int) -> Iterator[Samples]:
    """The pieces, as long as there is to be room for them all.

    Raises:
        ValueError: there is none: small files can hold days of silence.
    """
    size = 0
    for piece in pieces:
        size += piece.nbytes
        if size > MAX_DECODED_BYTES:
            seconds = MAX_DECODED_BYTES / piece.itemsize / sampling_rate
            longest = f"{seconds:,.0f} s, the longest that is decoded at {sampling_rate:,} Hz"
            raise ValueError(f"the sound is longer than {longest}: split it first")
        yield piece


def promised_seconds(stream: Any) -> float | None:
    """How long a stream is by its header; None where it does not say."""
    return None if stream.duration is None else float(stream.duration * stream.time_base)


def see_that_all_came(container: Any, seconds: float) -> None:
    """Compare what was decoded with what the header promises; FFmpeg takes any end for the end.

    Raises:
        ValueError: less came.
    """
    promised = promised_seconds(container.streams.audio[0])
    if promised is None or container.format.name in ESTIMATED:
        return
    if seconds < promised - MISSING_SECONDS:
        raise ValueError(f"the sound is cut off: it ends after {seconds:.1f} of {promised:.1f} s")
