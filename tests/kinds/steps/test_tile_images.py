"""Tiles are the image, at the places they say, and its edges are treated as asked."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InvalidSpec
from tasks.kinds import images
from tasks.kinds.column_types import is_encoded, is_media
from tasks.kinds.columns import column_to_numpy
from tasks.kinds.images import Pixels
from tasks.kinds.sources.images import SCHEMA
from tasks.kinds.steps import TileImagesStep
from tasks.kinds.steps.tile_images import Edges, positions
from tasks.kinds.user_arrays import array_from_numpy
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame, keeping_rows
from tests.kinds.tiny_models import noise, png


def rows(*images: bytes | None) -> pa.Table:
    table = pa.table([[f"{at}.png" for at in range(len(images))], [*images]], schema=SCHEMA)
    return table.add_column(0, ROW, pa.array(range(7, 7 + len(images)), pa.int64()))


def tiled(step: TileImagesStep, *images: Pixels) -> pa.Table:
    return keeping_rows(step.build(), rows(*map(png, images)))


@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from(["shift", "pad", "drop"]),
)
def test_positions(length: int, size: int, stride: int, edges: Edges) -> None:
    found = positions(length, size, stride, edges)
    assert found == sorted(set(found))
    assert all(0 <= at < length for at in found)
    if edges != "pad" and length >= size:
        assert all(at + size <= length for at in found)
    covered = {pixel for at in found for pixel in range(at, at + size)}
    if edges != "drop" and stride <= size:
        assert set(range(length)) <= covered
    if edges == "shift":
        last = max(0, length - size)
        assert found == sorted({min(at, last) for at in range(0, length, stride)})
    if edges == "drop":
        assert found == [at for at in range(0, length, stride) if at + size <= length]


@pytest.mark.parametrize("edges", ["shift", "pad", "drop"])
def test_tiles_are_parts_of_the_image(edges: Edges) -> None:
    (image,) = noise((50, 70))
    found = tiled(TileImagesStep(width=32, height=20, stride=20, edges=edges), image)
    black = np.zeros((90, 110, 3), np.uint8)
    black[:50, :70] = image
    corners = list(zip(found["tile_x"].to_pylist(), found["tile_y"].to_pylist(), strict=True))
    tiles = column_to_numpy(found["image"])
    assert {tile.shape for tile in tiles} == {(20, 32, 3)}
    for (x, y), tile in zip(corners, tiles, strict=True):
        np.testing.assert_array_equal(tile, black[y : y + 20, x : x + 32])
    xs, ys = {"shift": ([0, 20, 38], [0, 20, 30]), "pad": ([0, 20, 40], [0, 20, 40])}.get(
        edges, ([0, 20], [0, 20])
    )
    assert corners == [(x, y) for y in ys for x in xs]


def test_rows_are_children_of_theirs() -> None:
    found = tiled(TileImagesStep(width=16), *noise((16, 48), (16, 16)))
    assert found.select([ROW, "path", "tile_x", "tile_y"]).to_pydict() == {
        ROW: [7, 7, 7, 8],
        "path": ["0.png", "0.png", "0.png", "1.png"],
        "tile_x": [0, 16, 32, 0],
        "tile_y": [0, 0, 0, 0],
    }
    assert is_media(found.schema.field("image"))  # so it is not published
    assert not is_encoded(found.schema.field("image"), b"image")


@pytest.mark.parametrize(("edges", "tiles"), [("shift", 1), ("pad", 1), ("drop", 0)])
def test_an_image_smaller_than_a_tile(edges: Edges, tiles: int) -> None:
    (image,) = noise((10, 20))
    found = tiled(TileImagesStep(width=32, edges=edges), image)
    assert len(found) == tiles
    for tile in column_to_numpy(found["image"]):
        np.testing.assert_array_equal(tile[:10, :20], image)
        assert not tile[10:].any()
        assert not tile[:, 20:].any()


def test_arrays_of_an_earlier_step_are_taken() -> None:
    images = np.stack(noise((32, 32), (32, 32)))
    table = pa.table({ROW: [1, 2], "image": array_from_numpy(images)})
    found = TileImagesStep(width=16).build()(table)
    assert found[ROW].to_pylist() == [1] * 4 + [2] * 4
    np.testing.assert_array_equal(column_to_numpy(found["image"])[7], images[1, 16:, 16:])


def test_a_broken_image_is_set_aside() -> None:
    table = rows(png(noise((32, 32))[0]), b"no image", None)
    outcome = call_with_blame(TileImagesStep(width=32).build(), table)
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [7]
    assert [str(error)[:25] for error in outcome.failed.values()] == [
        "the file is not an image ",
        "column 'image' is empty i",
    ]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            rows(b"").drop_columns("image"),
            "steps.tile_images.column: 'image' is not among the columns",
        ),
        (rows(b"").append_column("tile_x", [[1]]), r"rename the columns \['tile_x'\]"),
        (pa.table({ROW: [1], "image": ["a"]}), "is string, not images"),
    ],
)
def test_what_the_spec_has_wrong_is_no_rows_fault(table: pa.Table, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem):
        TileImagesStep(width=8).build()(table)


def test_small_files_that_become_large_are_not_all_decoded_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(images, "MAX_DECODED_BYTES", 1)
    with pytest.raises(MemoryError, match="2 of 2 images take"):
        tiled(TileImagesStep(width=2), *noise((4, 4), (4, 4)))
