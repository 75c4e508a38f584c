"""Videos: the frames asked for, at their times, and damage in its place."""

import importlib.util
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import IMAGE, is_encoded
from tasks.kinds.images import decode_image
from tasks.kinds.places import check_source
from tasks.kinds.sources import VideoSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.kinds.sources.video import ENCODE
from tests.kinds.sources.reading import read_all
from tests.kinds.sources.test_parquet import BreakingFile
from tests.kinds.videos import picture, save, turn

FORMS = [".mp4", ".mkv", ".avi", ".webm"]


def source(path: Path, **fields: Any) -> VideoSource:
    return VideoSource(path=str(path), **fields)


def grey(row: dict[str, Any]) -> int:
    """The number that a frame's picture says."""
    return round((int(decode_image(row["image"])[40, 40, 0]) - 20) / 4)


@pytest.mark.parametrize("form", FORMS)
def test_the_first_frame_of_each_stretch(tmp_path: Path, form: str) -> None:
    file = save(tmp_path / f"a{form}", frames=50, rate=10)
    rows = read_all(source(tmp_path, every_seconds=0.7))
    numbers = [0, 7, 14, 21, 28, 35, 42, 49]
    assert [row["frame"] for row in rows] == numbers
    assert [grey(row) for row in rows] == numbers
    assert [row["seconds"] for row in rows] == pytest.approx([n / 10 for n in numbers], abs=1e-3)
    assert {row["path"] for row in rows} == {str(file)}


def test_a_video_that_does_not_say_how_long_its_last_frame_is_shown_is_whole(
    tmp_path: Path,
) -> None:
    save(tmp_path / "a.wmv", frames=4, rate=1)
    assert [row["seconds"] for row in read_all(source(tmp_path))] == [0, 1, 2, 3]


def test_a_slow_video_that_is_quicker_here_and_there_is_no_joined_one(tmp_path: Path) -> None:
    """As of a camera that takes a picture a minute, and more where something moves."""
    import av

    times = [0, 60, 120, 120.1, 120.2, 180, 180.1, 240]
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(1, 60))
        stream.width, stream.height = 64, 48
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, seconds in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(number), "rgb24")
            frame.pts, frame.time_base = round(1000 * seconds), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    rows = read_all(source(tmp_path, every_seconds=0.1))
    assert [row["seconds"] for row in rows] == pytest.approx(times)


def test_recordings_that_were_joined_are_seen_to_the_last_ones_end(tmp_path: Path) -> None:
    """Such files may be put together as they are, and each has a clock of its own."""
    parts = [save(tmp_path / f"{frames}.m2ts", frames, rate=25) for frames in (100, 50, 75)]
    joined = tmp_path / "joined.m2ts"
    joined.write_bytes(b"".join(each.read_bytes() for each in parts))
    rows = read_all(source(joined))
    assert [row["frame"] for row in rows] == [*range(0, 225, 25)]
    assert [row["seconds"] for row in rows] == [*range(9)]


def test_a_frame_that_no_picture_has_room_for_is_set_aside_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one of more than 65,500 pixels a side, which would take too long to make here."""
    save(tmp_path / "a.mp4", frames=3)
    encode, asked = ENCODE["jpeg"], iter([False, True, False])

    def refuse(pixels: Any) -> bytes:
        if next(asked):
            raise ValueError("too large for JPEG")
        return encode(pixels)

    monkeypatch.setitem(ENCODE, "jpeg", refuse)
    rows = read_all(source(tmp_path, every_seconds=None))
    assert [isinstance(row, BadRow) for row in rows] == [False, True, False]


def test_every_frame_and_so_many_at_most(tmp_path: Path) -> None:
    save(tmp_path / "a.mp4", frames=30)
    save(tmp_path / "b.mp4", frames=3)
    assert len(read_all(source(tmp_path, every_seconds=None))) == 33
    rows = read_all(source(tmp_path, every_seconds=None, max_frames=4))
    assert [row["frame"] for row in rows] == [0, 1, 2, 3, 0, 1, 2]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_stretch_has_a_length(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(ValidationError, match="every_seconds"):
        source(tmp_path, every_seconds=seconds)


@pytest.mark.parametrize(("encoding", "tolerance"), [("png", 0), ("jpeg", 16)])
def test_pixels_are_the_decoders(tmp_path: Path, encoding: str, tolerance: int) -> None:
    import av

    file = save(tmp_path / "a.mp4", frames=12, noise=20)
    rows = read_all(source(tmp_path, every_seconds=None, encoding=encoding))
    with av.open(str(file)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    found = [decode_image(row["image"]).astype(int) for row in rows]
    difference = np.abs(np.stack(found) - np.stack(frames))
    assert difference.max() <= tolerance
    assert difference.mean() <= tolerance / 8
    assert np.abs(found[5] - picture(5)).mean() < 20


def test_a_turned_video_is_upright(tmp_path: Path) -> None:
    turn(save(tmp_path / "a.mp4", frames=2))
    pixels = decode_image(read_all(source(tmp_path))[0]["image"])
    assert pixels.shape == (64, 48, 3)
    assert pixels[8, 40].min() > 200  # what was at the top left is at the top right
    assert pixels[8, 8].max() < 60


def test_images_are_media(tmp_path: Path) -> None:
    save(tmp_path / "a.mp4", frames=1)
    storage, (stat,) = list_inputs(source(tmp_path))
    (shard,) = source(tmp_path).split(storage, stat)
    (read,) = source(tmp_path).read(storage, shard, {})
    assert not isinstance(read, BadRow)
    assert is_encoded(read.schema.field("image"), IMAGE)


@pytest.mark.parametrize("form", [".mp4", ".mkv", ".webm"])
def test_a_video_that_is_cut_off_is_not_silently_short(tmp_path: Path, form: str) -> None:
    file = save(tmp_path / f"a{form}", frames=50, noise=20)
    whole = read_all(source(tmp_path, every_seconds=None))
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 6 // 10])
    *rows, bad = read_all(source(tmp_path, every_seconds=None))
    good = [row for row in rows if not isinstance(row, BadRow)]
    assert 0 < len(good) < 50
    assert good == whole[: len(good)]
    assert isinstance(bad, BadRow)
    assert "cut off" in str(bad.error)
    assert bad.is_rest, "how many frames are missing, nobody knows"


@pytest.mark.parametrize("form", FORMS)
def test_a_cut_shows_also_where_no_row_is_of_the_last_frame(tmp_path: Path, form: str) -> None:
    file = save(tmp_path / f"a{form}", frames=50, noise=20)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 6 // 10])
    good, *_, bad = read_all(source(tmp_path, every_seconds=9))
    assert good["frame"] == 0
    assert "cut off" in str(bad.error)


@pytest.mark.parametrize("form", [".mp4", ".avi"])
def test_damage_costs_the_frames_it_hits(tmp_path: Path, form: str) -> None:
    file = save(tmp_path / f"a{form}", frames=50, noise=20)
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 600] = b"\xff" * 600
    file.write_bytes(bytes(content))
    rows = read_all(source(tmp_path, every_seconds=None))
    bad = [row for row in rows if isinstance(row, BadRow)]
    assert 1 <= len(bad) <= 20
    assert "damaged" in str(bad[0].error)
    assert not any(each.is_rest for each in bad)
    assert len(rows) - len(bad) >= 25


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "zero bytes"), (b"hello" * 100, "not a video")]
)
def test_what_is_no_video_is_one_bad_row(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a.mp4").write_bytes(content)
    save(tmp_path / "b.mp4", frames=1)
    bad, good = read_all(source(tmp_path))
    assert reason in str(bad.error)
    assert bad.is_rest
    assert good["frame"] == 0


def test_a_list_of_other_files_is_no_video(tmp_path: Path) -> None:
    """Else a stranger would be shown what else lies on the worker's disk."""
    save(tmp_path / "mine.mp4", frames=1)
    (tmp_path / "a.mp4").write_bytes(b"ffconcat version 1.0\nfile 'mine.mp4'\n")
    [bad] = read_all(VideoSource(path=str(tmp_path / "a.mp4")))
    assert "not a video that can be read" in str(bad.error)


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), ConnectionError("reset"), TimeoutError("slow")]
)
def test_storage_errors_are_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    save(tmp_path / "a.mp4", frames=100, noise=60)
    storage, (stat,) = list_inputs(source(tmp_path))
    (shard,) = source(tmp_path).split(storage, stat)
    monkeypatch.setattr(storage, "open", lambda path: BreakingFile(Path(path), error))
    with pytest.raises(type(error), match=str(error.args[-1])):
        list(source(tmp_path, every_seconds=None).read(storage, shard, {}))


def test_without_the_decoder_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "a.mp4", frames=1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidSpec, match=r"source.kind: 'video' .*prefect-ray-data\[video\]"):
        check_source(source(tmp_path))


def test_a_format_that_nobody_knows_is_one_bad_row(tmp_path: Path) -> None:
    file = save(tmp_path / "a.mp4", frames=10)
    file.write_bytes(file.read_bytes().replace(b"avc1", b"zzzz"))
    [bad] = read_all(VideoSource(path=str(tmp_path)))
    assert str(bad.error) == "the video is in a format that FFmpeg does not know"


def test_a_title_that_is_not_utf8_costs_nothing(tmp_path: Path) -> None:
    file = save(tmp_path / "a.mp4", frames=10)
    content = file.read_bytes()
    at = content.index(b"Lavf")  # who wrote it
    file.write_bytes(content[:at] + b"\xff\xfe" + content[at + 2 :])
    [row] = read_all(VideoSource(path=str(tmp_path)))
    assert row["frame"] == 0


@pytest.mark.parametrize("tag", [b"??:00:01", b"00:00:0?", b"1 second", b"00:00:00:01"])
def test_a_length_that_is_none_costs_nothing(tmp_path: Path, tag: bytes) -> None:
    file = save(tmp_path / "a.mkv", frames=10)
    content = file.read_bytes()
    at = content.index(b"00:00:01.")
    file.write_bytes(content[:at] + tag.ljust(18, b"\0") + content[at + 18 :])
    [row] = read_all(VideoSource(path=str(tmp_path)))
    assert row["frame"] == 0
