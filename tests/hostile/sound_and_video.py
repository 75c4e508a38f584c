"""Sounds and videos: cut off, damaged, and something else altogether."""

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.hostile.files import Hostile, cuts, flips, wrong
from tests.kinds import sounds, videos


def audio(seed: random.Random) -> Iterator[Hostile]:
    """Of each format."""
    tone = [sounds.tone(0.5, 16_000)]
    for form in ("wav", "flac", "ogg", "mp3"):
        whole = sounds.encoded(tone, 16_000, form)
        eighths = [len(whole) * each // 8 for each in (0, 2, 4, 6)]
        for name, content in [*cuts(whole, eighths), *flips(whole, 4, seed)]:
            yield Hostile("audio", f"{name}.{form}", content)
        for name, content in wrong(whole).items():
            yield Hostile("audio", f"{name}.{form}", content)


def video(seed: random.Random) -> Iterator[Hostile]:
    """Of each format."""
    for form in (".mp4", ".mkv", ".avi"):
        whole = made(form)
        eighths = [len(whole) * each // 8 for each in (0, 2, 4, 6)]
        for name, content in [*cuts(whole, eighths), *flips(whole, 4, seed)]:
            yield Hostile("video", f"{name}{form}", content)
        for name, content in wrong(whole).items():
            yield Hostile("video", f"{name}{form}", content)


def made(form: str) -> bytes:
    """A short video."""
    with TemporaryDirectory() as folder:
        return videos.save(Path(folder) / f"a{form}", frames=10).read_bytes()
