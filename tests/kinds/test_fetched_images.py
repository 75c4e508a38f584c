"""Images by URL come side by side and in order; what cannot be had costs its own row."""

from threading import Barrier

import pytest

from tasks.errors import StageFailed
from tasks.kinds.images import BadImage
from tasks.kinds.models.llm.fetched_images import MANY, NoAnswer, fetched
from tasks.kinds.models.llm.shown_images import Illustrated

GONE, NONE = "http://gone/a.png", "http://here/none.png"


def shown(image: bytes | str | None) -> Illustrated:
    return Illustrated([{"role": "user", "content": "?"}], image, "image")


def answered(url: str) -> bytes:
    if url == GONE:
        raise NoAnswer(f"the image {url} cannot be fetched: nobody answers")
    if url == NONE:
        raise BadImage(f"the image {url} cannot be fetched: 404")
    return url.encode()


def test_files_take_the_place_of_urls_in_order() -> None:
    urls = [f"http://here/{number}.png" for number in range(40)]
    bad = ValueError("a row that was set aside before")
    found = [*fetched([shown(b"file"), bad, "a text", *map(shown, urls)], answered)]
    assert found[:3] == [shown(b"file"), bad, "a text"]
    assert found[3:] == [shown(url.encode()) for url in urls]


def test_they_come_side_by_side() -> None:
    both = Barrier(2, timeout=30)

    def wait_for_the_other(url: str) -> bytes:
        both.wait()
        return b""

    assert len([*fetched([shown("http://a"), shown("http://b")], wait_for_the_other)]) == 2


def test_what_cannot_be_had_costs_its_own_row() -> None:
    urls = ["http://here/a.png", GONE, NONE, "no url", *[GONE] * MANY]
    found = [*fetched([shown(url) for url in urls], answered)]
    assert found[0] == shown(b"http://here/a.png")
    reasons = ["nobody answers", "404", "not the URL of an image", *["nobody answers"] * MANY]
    for error, reason in zip(found[1:], reasons, strict=True):
        assert reason in str(error)


def test_where_of_many_none_comes_the_attempt_fails() -> None:
    with pytest.raises(StageFailed, match=f"none of {MANY} images .* nobody answers"):
        list(fetched([shown(GONE)] * MANY, answered))
    for others in ([GONE] * (MANY - 1), [NONE] * MANY, [GONE] * MANY + [NONE]):
        found = [*fetched([shown(url) for url in others], answered)]
        assert all(isinstance(each, BadImage) for each in found)
