"""The corpus: some hundred hostile files, the same ones for the same seed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.hostile import archives, columns, lines, pictures, sound_and_video
from tests.hostile.files import Hostile, Make
from tests.kinds.archives import tar
from tests.kinds.sounds import encoded, tone

KINDS: dict[str, Make] = {
    "images": pictures.images,
    "csv": lines.csv,
    "jsonl": lines.jsonl,
    "text": lines.text,
    "parquet": columns.parquet,
    "webdataset": archives.webdataset,
    "audio": sound_and_video.audio,
    "video": sound_and_video.video,
}
GOOD: dict[str, Callable[[], tuple[bytes, int]]] = {
    "images": lambda: (pictures.encoded(pictures.PICTURE, "PNG"), 1),
    "csv": lambda: (lines.CSV, 20),
    "jsonl": lambda: (lines.JSONL, 20),
    "text": lambda: (lines.TEXT, 20),
    "parquet": lambda: (columns.parquet_of(columns.TABLE), columns.ROWS),
    "webdataset": lambda: (tar(archives.SAMPLES), len(archives.SAMPLES) // 2),
    "audio": lambda: (encoded([tone(0.5, 16_000)], 16_000), 1),
    "video": lambda: (sound_and_video.made(".mp4"), 1),
}
ODD_NAMES = (
    "with spaces and 'quotes' \"of both kinds\"",
    "with\nnewlines\nin it",
    "with a tab\tand\x01controls",
    "day=2026-01-01",
    "100% #1 ?x=1&y=2",
    "émoji 😀 和 עברית",
    "[brackets] {braces} *stars*",
    "back\\slash",
    "~home $HOME `id`",
    "é decomposed",
    "-rf",
    "n" * 200,
)


def corpus(kind: str, seed: int = 0) -> Iterator[Hostile]:
    """The hostile files of a kind, and good ones under odd names."""
    yield from KINDS[kind](random.Random(f"{kind} {seed}"))
    yield from (replace(good(kind), name=f"{name}{ending(kind)}") for name in ODD_NAMES)


def good(kind: str) -> Hostile:
    """A good file, whose rows say what columns there are."""
    content, rows = GOOD[kind]()
    return Hostile(kind, f"0 good{ending(kind)}", content, rows, False)


def ending(kind: str) -> str:
    """How the good files' names end."""
    ends = {"images": "png", "text": "txt", "webdataset": "tar", "audio": "wav", "video": "mp4"}
    return f".{ends.get(kind, kind)}"


def save(folder: Path, files: Iterator[Hostile]) -> list[Hostile]:
    """Write files into a folder; those of one name come to lie under several."""
    saved = list[Hostile]()
    taken = set[str]()
    for number, each in enumerate(files):
        name = each.name if each.name not in taken else f"{number} {each.name}"
        taken.add(name)
        (folder / name).write_bytes(each.content)
        saved.append(replace(each, name=name))
    return saved
