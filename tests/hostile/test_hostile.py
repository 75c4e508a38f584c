"""Every good row of a hostile corpus is published, every bad one set aside with a clear reason."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.kinds import images
from tests.hostile.corpus import KINDS, corpus, good, save
from tests.hostile.files import Hostile
from tests.hostile.pictures import PICTURE
from tests.hostile.running import alone, run

MOST_SECONDS, MOST_MEBIBYTES = 20.0, 300.0
"""Of one file; of CPU time, since the machine may be busy."""
FEWEST = 60
"""Files of each of the eight kinds."""

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXIF:UserWarning"),
    pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning"),
]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """One of the sources that read files."""
    return str(request.param)


@pytest.fixture(scope="module")
def files(kind: str) -> list[Hostile]:
    """Its hostile files."""
    return list(corpus(kind))


def test_good_rows_are_published_and_bad_ones_set_aside(
    kind: str, files: list[Hostile], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    beside = [each for each in files if not each.alone]
    saved = save(folder, iter([good(kind), *beside]))
    assert len(saved) > FEWEST
    found = run(kind, folder)
    assert sorted(found) == sorted(each.name for each in saved)
    assert [line for each in saved for line in found[each.name].complaints(each)] == []


def test_a_file_alone_neither_hangs_nor_fills_the_memory(
    files: list[Hostile], tmp_path: Path
) -> None:
    def odd() -> Iterator[str]:
        for each in files:
            found = alone(each, tmp_path)
            if found.seconds > MOST_SECONDS or found.mebibytes > MOST_MEBIBYTES:
                yield f"{each.kind} {each.name!r}: {found.seconds} s, {found.mebibytes} MiB"
            yield from found.complaints(Hostile(each.kind, each.name, b""))

    assert list(odd()) == []


def test_a_batch_of_images_that_grow_too_large_is_halved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_DECODED_BYTES", 5 * PICTURE.width * PICTURE.height * 3)
    folder = tmp_path / "in"
    folder.mkdir()
    save(folder, (replace(good("images"), name=f"{at}.png") for at in range(20)))
    assert [each.good for each in run("images", folder).values()] == [1] * 20
