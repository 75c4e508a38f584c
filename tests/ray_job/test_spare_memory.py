"""Memory that is free goes back to the system, whatever small things lie between."""

import ctypes
import platform
import re
import time
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from tasks.ray_job.spare_memory import EVERY_SECONDS, giving_back

ROWS = pa.table({"x": [1]})
HOLES, BYTES, BYTES_KEPT = 2_000, 100_000, 10_000
"""As large as activations of few rows: too small for a mapping of their own."""


def resident() -> int:
    """Bytes of this process that no file stands behind."""
    found = re.search(r"RssAnon:\s*(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


class Shredder:
    """Leaves as many holes in the heap as it has made large things, and a small one after each."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def __call__(self, rows: pa.Table) -> pa.Table:
        large = []
        for _ in range(HOLES):
            large.append(b"x" * BYTES)
            self.kept.append(b"y" * BYTES_KEPT)
        return rows


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_what_lies_free_between_small_things_is_given_back() -> None:
    shred = Shredder()
    before = resident()
    shred(ROWS)
    held = resident() - before
    assert held > HOLES * BYTES / 2, "it is kept, unless somebody asks"
    assert giving_back(lambda rows: rows, every_seconds=0)(ROWS) is ROWS
    assert resident() - before < held / 4
    assert len(shred.kept) == HOLES


def test_it_is_not_done_after_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    times, trims = count(0.0, EVERY_SECONDS / 4), list[int]()
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    library = type("Library", (), {"malloc_trim": lambda self, pad: trims.append(pad)})()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    call = giving_back(lambda rows: rows)
    for _ in range(20):
        call(ROWS)
    assert trims == [0] * 5


def test_a_library_that_has_no_such_call_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert giving_back(resident) is resident  # type: ignore[arg-type,comparison-overlap]
