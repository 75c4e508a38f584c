"""Some of a run's rows for a person to look at, images with a thumbnail."""

import base64
import io
from collections.abc import Container
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from tasks.errors import InvalidSpec
from tasks.kinds.images import decode_image
from tasks.kinds.sources import ImagesSource, Source
from tasks.kinds.sources.images import SUFFIXES
from tasks.plan import PlannedRun
from tasks.planning.known_columns import columns_before_model
from tasks.protocol.acceptance import Accepted
from tasks.protocol.read_back import read_back
from tasks.python_rows import python_rows
from tasks.reporting.evidence import Evidence
from tasks.reporting.objects import Object, drawn, objects_of
from tasks.reporting.redaction import cell, scrub, table

SAMPLE_ROWS = 8
SHOWN_COLUMNS = 12
"""Of a table, but for predictions: so many of these may be shown."""
SHOWN_PREDICTIONS = 50
SHOWN_INPUTS = 4
"""However many predictions there are: whoever looks wants to know of which rows they are."""
SHOWN_CHARACTERS = 120
SHOWN_ITEMS = 4
THUMBNAIL_PIXELS = 96
JPEG_QUALITY = 85


def run_sample(evidence: Evidence) -> str:
    """The run's first rows as an HTML table; empty where there are none."""
    rows = None
    try:
        rows = sample_rows(evidence.planned, evidence.accepted)
    except (FileNotFoundError, InvalidSpec) as error:
        evidence.go_without("sample predictions", error)
    return "" if rows is None else sample_table(evidence.planned, rows)


def sample_rows(planned: PlannedRun, accepted: Accepted) -> pa.Table | None:
    """Some of the run's rows, published or held back, to look at; None where there are none.

    A version that was replaced since has none any more.

    Raises:
        FileNotFoundError: a file of theirs is gone.
        InvalidSpec: it cannot be read.
    """
    snapshot = planned.ledger.look()
    mine, output = snapshot.files.of_run(planned.run.run_id), planned.output
    paths = [file.target(output) for file in mine]
    if snapshot.version_of(planned.run_key) is None:
        files = [file for record in accepted.records for file in record.files]
        paths = [f"{planned.run.staging}/{file.name}" for file in files]
    for path in paths:
        first_rows = partial(planned.spec.sink.first_rows, num_rows=SAMPLE_ROWS)
        rows = read_back(planned.storage, path, first_rows, "Restore it")
        if len(rows):
            return rows
    return None


def sample_table(planned: PlannedRun, rows: pa.Table) -> str:
    """Rows as an HTML table, images as thumbnails; of many input columns the first and the last."""
    names = shown_columns(planned, rows.column_names)
    lines = [
        [cell(scrub(shorten(row[name]), planned.spec)) for name in names]
        for row in python_rows(rows)
    ]
    if "path" in names and planned.spec.source.has_media:
        source, shown = planned.spec.source, python_rows(rows)
        paths = [row["path"] for row in shown]
        known = inputs_among(source, paths, planned.plan.shards["path"])
        images = [thumbnail(source, row["path"], known, objects_of(row)) for row in shown]
        if any(images):
            names = ["image", *names]
            lines = [[image, *line] for image, line in zip(images, lines, strict=True)]
    return table(names, lines)


def shown_columns(planned: PlannedRun, names: list[str]) -> list[str]:
    """Not too many, and all predictions: these are what somebody wants to see.

    What a step of the user's own adds, which only its code knows, counts as one.
    """
    inputs = columns_before_model(planned.spec, planned.plan.pins.get("reader") or {})
    given = [name for name in names if name in inputs]
    made = ends_of([name for name in names if name not in inputs], SHOWN_PREDICTIONS)
    shown = {*ends_of(given, max(SHOWN_INPUTS, SHOWN_COLUMNS - len(made))), *made}
    return [name for name in names if name in shown]


def ends_of(names: list[str], most: int) -> list[str]:
    """The first and the last of more columns than are to be shown."""
    if len(names) <= most:
        return names
    return [*names[: most - most // 2], *names[-(most // 2) :]]


def shorten(value: Any) -> str:
    """A value in a few characters."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, list) and len(value) > SHOWN_ITEMS:
        first = ", ".join(shorten(each) for each in value[:SHOWN_ITEMS])
        return f"[{first}, … {len(value)} in all]"
    if isinstance(value, list):
        return "[" + ", ".join(shorten(each) for each in value) + "]"
    if isinstance(value, dict):  # a struct, whose fields may be bytes, as a Hub image's are
        value = "{" + ", ".join(f"{name}: {shorten(each)}" for name, each in value.items()) + "}"
    words = str(value)
    return words if len(words) <= SHOWN_CHARACTERS else words[:SHOWN_CHARACTERS] + "…"


def thumbnail(
    source: Source, path: object, inputs: Container[str], objects: list[Object] | None = None
) -> str:
    """A small image of an input; empty where it is none, cannot be reached, or is not among them.

    A model may have put any path into the column: only what a run itself has read is opened.
    """
    storage, _ = source.opened(source.paths[0])
    known = storage.filesystem._strip_protocol(str(path))
    has_images = isinstance(source, ImagesSource) or is_image(known)
    may_be_one = source.one_row_per_file and has_images
    if known not in inputs or not may_be_one:  # a video is no picture, and a sound may be large
        return ""
    try:
        return picture(storage.read(known), objects)
    except (OSError, ValueError):
        return ""  # a page without a picture is better than none


def inputs_among(source: Source, paths: list[object], inputs: pa.ChunkedArray) -> set[str]:
    """Which of some paths are inputs, as their storage names them; of these there may be millions.

    Args:
        source: that they are of.
        paths: as a column has them.
        inputs: paths of all.
    """
    storage, _ = source.opened(source.paths[0])
    wanted = [storage.filesystem._strip_protocol(str(path)) for path in paths]
    return set(inputs.filter(pc.is_in(inputs, pa.array(wanted, inputs.type))).to_pylist())


def is_image(path: str) -> bool:
    """Whether a file's name ends as an image's does."""
    return path.lower().endswith(SUFFIXES)


def picture(content: bytes, objects: list[Object] | None = None) -> str:
    """An image file as a small one in HTML, with the objects that were found in it, if any.

    Raises:
        ValueError: it is no image that can be decoded.
    """
    image = Image.fromarray(decode_image(content))
    if objects is None:
        image.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
    else:
        image = drawn(image, objects)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    data = base64.b64encode(stream.getvalue()).decode()
    return f'<img alt="" src="data:image/jpeg;base64,{data}">'
