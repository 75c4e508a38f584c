"""Decodes videos as they lie about in the world: frames at even times, upright, as 8-bit RGB."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import IO, Any

import numpy as np

from tasks.counted import counted
from tasks.kinds.ffmpeg_files import opened
from tasks.kinds.images import Pixels

MISSING_SECONDS = Fraction(1, 2)
"""How much earlier than its header says a video may end: trimming hides a few frames."""
JOINED_SECONDS = 1
"""How far time goes back at least where another recording begins; some files' frames do by less."""
LAST_FRAMES = 5
"""Where a file ends within a frame, this is among fewer at the end: some are shown after it."""
CLOCK = re.compile(r"(\d+):(\d+):(\d+(?:\.\d+)?)", re.ASCII)
"""Hours, minutes and seconds; anything can stand in a tag."""


class DamagedVideo(ValueError):
    """Frames of a video cannot be read; says which, and why."""


class CutOffVideo(DamagedVideo):
    """Nothing more is read of a video, and nobody knows how many frames are missing."""


@dataclass(frozen=True)
class Frame:
    """A frame of a video."""

    number: int
    """How many came before it."""
    seconds: Fraction
    """When it is shown, from the video's start."""
    pixels: Pixels


def sampled_frames(file: IO[bytes], every_seconds: float | None) -> Iterator[Frame | DamagedVideo]:
    """The first frame of each stretch of so many seconds; None: every frame.

    Whatever is damaged comes as a DamagedVideo in its place; what FFmpeg can read behind it is
    still read. What `file` raises is raised.
    """
    import av

    try:
        container = opened(file)
    except av.error.FFmpegError as error:
        yield CutOffVideo(f"the file is not a video that can be read: {error.strerror}")
        return
    with container:
        if not container.streams.video:
            yield CutOffVideo("the file contains no video")
        elif container.streams.video[0].codec_context is None:
            yield CutOffVideo("the video is in a format that FFmpeg does not know")
        else:
            yield from frames_of(container, every_seconds)


def frames_of(container: Any, every_seconds: float | None) -> Iterator[Frame | DamagedVideo]:
    """The same of an open container."""
    stream = container.streams.video[0]
    stream.codec_context.thread_count = 1  # a reader is one worker among many
    every = None if every_seconds is None else Fraction(str(every_seconds))
    last_stretch, number, damaged = -1, 0, -LAST_FRAMES
    start = stream.start_time or 0  # of slow videos FFmpeg says another as it reads on
    latest = end = before = Fraction(0)
    for found in decoded(container, stream):
        if isinstance(found, DamagedVideo):
            yield DamagedVideo(f"{found} after frame {number}, {float(end):.2f} s")
            continue
        seconds = before + time_of(found, number, stream, start)
        if seconds < latest - JOINED_SECONDS:  # else nothing of it would be taken
            before += end - seconds
            seconds = end
        seconds = max(Fraction(0), seconds)
        latest = max(latest, seconds)
        end = max(end, seconds + length_of(found, stream))
        stretch = number if every is None else seconds // every
        if stretch > last_stretch:
            yield frame_of(found, number, seconds)
            last_stretch = stretch
        elif found.is_corrupt:
            damaged = number
        number += 1
    promised = promised_seconds(container, stream)
    if promised is not None and end < promised - MISSING_SECONDS:
        whole = f"{float(end):.2f} of {float(promised):.2f} s, {counted(number, 'frame')}"
        yield CutOffVideo(f"the video is cut off: it ends after {whole}")
    elif number - damaged < LAST_FRAMES:
        yield CutOffVideo(f"the video is cut off: frame {damaged} of {number} is damaged")


def decoded(container: Any, stream: Any) -> Iterator[Any]:
    """A stream's frames; one DamagedVideo for each run of packets that cannot be decoded."""
    import av

    packets, was_broken = container.demux(stream), False
    while True:
        try:
            frames = next(packets).decode()
        except StopIteration:
            return
        except av.error.FFmpegError as error:
            if not was_broken:
                yield DamagedVideo(f"the video is damaged ({error.strerror})")
            was_broken = True
            continue
        was_broken = was_broken and not frames
        yield from frames


def frame_of(found: Any, number: int, seconds: Fraction) -> Frame | DamagedVideo:
    """A decoded frame, turned upright."""
    if found.is_corrupt:
        return DamagedVideo(f"frame {number} at {float(seconds):.2f} s is damaged")
    turned = np.rot90(found.to_ndarray(format="rgb24"), round(found.rotation / 90))
    return Frame(number, seconds, np.ascontiguousarray(turned))


def time_of(found: Any, number: int, stream: Any, start: int) -> Fraction:
    """When a frame is shown, in seconds from the start; by its number where it does not say."""
    if found.pts is None:
        return number * usual_length(stream)
    return (found.pts - start) * Fraction(found.time_base)


def length_of(found: Any, stream: Any) -> Fraction:
    """How long a frame is shown, in seconds; as long as others where it does not say."""
    return (found.duration or 0) * Fraction(found.time_base or 0) or usual_length(stream)


def usual_length(stream: Any) -> Fraction:
    """How long the frames of a video are shown, in seconds."""
    return 1 / Fraction(stream.average_rate or stream.guessed_rate or 25)


def promised_seconds(container: Any, stream: Any) -> Fraction | None:
    """How long the video is by its header; None where that does not say.

    Matroska says it of a track in a tag, and of the file, whose sound may be longer.
    """
    import av

    found = []
    if stream.duration is not None:
        found.append(stream.duration * Fraction(stream.time_base))
    elif tag := CLOCK.fullmatch(stream.metadata.get("DURATION", "")):
        hours, minutes, seconds = tag.groups()
        found.append(3600 * int(hours) + 60 * int(minutes) + Fraction(seconds))
    if container.duration is not None and (found or len(container.streams) == 1):
        found.append(Fraction(container.duration, av.time_base))
    return min(found, default=None)
