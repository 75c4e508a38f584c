"""Good files of each kind, mutated and read: no error but bad rows with clear reasons."""

import gzip
import random
import warnings
from functools import cache
from pathlib import Path

from tests.fuzz.mutating import mutated
from tests.hostile import columns, lines, pictures
from tests.hostile.corpus import GOOD, ending
from tests.hostile.files import Hostile
from tests.hostile.running import alone
from tests.kinds.sounds import encoded as sound
from tests.kinds.sounds import tone
from tests.kinds.sources.reading import COMPRESS

CODECS = ("none", "snappy", "zstd", "gzip", "lz4", "brotli")
MOST_SECONDS, MOST_MEBIBYTES = 20.0, 600.0
"""A page may say that it becomes half a gibibyte; then so much is asked for."""


@cache
def originals() -> list[Hostile]:
    """Good files."""
    found = [Hostile(kind, f"a{ending(kind)}", GOOD[kind]()[0]) for kind in GOOD]
    for kind, content in (("csv", lines.CSV), ("jsonl", lines.JSONL), ("text", lines.TEXT)):
        packed = [(suffix, pack(content * 50)) for suffix, pack in COMPRESS.items() if suffix]
        found += [Hostile(kind, f"a{ending(kind)}{suffix}", data) for suffix, data in packed]
    for codec in CODECS:
        content = columns.parquet_of(columns.TABLE, row_group_size=100, compression=codec)
        found.append(Hostile("parquet", "a.parquet", content))
    for form, name in pictures.ENDINGS.items():
        found.append(Hostile("images", f"a.{name}", pictures.encoded(pictures.PICTURE, form)))
    for form in ("flac", "ogg", "mp3"):
        found.append(Hostile("audio", f"a.{form}", sound([tone(0.2, 16_000)], 16_000, form)))
    found.append(Hostile("webdataset", "a.tar.gz", gzip.compress(GOOD["webdataset"]()[0])))
    return found


def read_one(seed: random.Random, folder: Path) -> str | None:
    """Mutate a file and read it; what is wrong with how that went.

    Raises:
        Exception: whatever the source raised.
    """
    whole = seed.choice(originals())
    file = Hostile(whole.kind, whole.name, mutated(whole.content, seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of what it forgives
        found = alone(file, folder)
    if found.seconds > MOST_SECONDS or found.mebibytes > MOST_MEBIBYTES:
        return f"{file.kind}: {found.seconds:.0f} s, {found.mebibytes:.0f} MiB"
    return next(iter(found.complaints(file)), None)
