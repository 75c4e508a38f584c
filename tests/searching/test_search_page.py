"""The page of a search: what it may show."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from PIL import Image

from tasks.reporting.search_page import Search, search_page
from tasks.searching.query import MediaQuery
from tasks.searching.scoring import unit
from tests.searching.outputs import published, spec_at


def test_no_password_of_a_url_is_shown(tmp_path: Path) -> None:
    spec = spec_at(tmp_path)
    table = pa.table({"embedding": pa.array([[1.0, 0.0]], pa.list_(pa.float32(), 2))})
    vectors = published(spec, [table])
    nearest = vectors.nearest(unit([1, 0]), 1)
    sink = spec.sink.model_copy(update={"path": "sftp://ann:pass-1@there/out"})
    vectors = replace(vectors, spec=spec.model_copy(update={"sink": sink}))
    picture = io.BytesIO()
    Image.new("RGB", (1, 1)).save(picture, "png")
    for content in ("a text", picture.getvalue()):
        query = MediaQuery("https://bob:pass-2@here/cat.png", "image", content)
        search = Search(vectors, query, nearest, {})
        for told in (search_page(search), json.dumps(search.as_json())):
            assert "pass-" not in told
            assert "sftp://***@there/out" in told
            assert "https://***@here/cat.png" in told
