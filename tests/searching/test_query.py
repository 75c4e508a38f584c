"""What a query is, and where it lies."""

import traceback
from pathlib import Path

import numpy as np
import pytest

from tasks.errors import InvalidSpec, Unreachable
from tasks.searching.query import MediaQuery, QueryForm, VectorQuery, read_query
from tests.s3_server import S3
from tests.searching.outputs import spec_at


@pytest.mark.parametrize(
    ("given", "media", "content"),
    [
        ("a cat on a mat", "text", "a cat on a mat"),
        ("a cat [photo", "text", "a cat [photo"),
        ("{folder}/cat.PNG", "image", b"pixels"),
        ("{folder}/without-ending", "image", b"pixels"),
    ],
)
def test_texts_and_images(tmp_path: Path, given: str, media: str, content: object) -> None:
    for name in ("cat.PNG", "without-ending"):
        (tmp_path / name).write_bytes(b"pixels")
    given = given.format(folder=tmp_path)
    query = read_query(spec_at(tmp_path), given)
    assert query == MediaQuery(given, media, content)  # type: ignore[arg-type]


def test_vectors(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.array([3, 4], np.float16))
    np.save(tmp_path / "row.npy", np.array([[3, 4]]))
    for given in ("[3, 4]", " [0.3, 0.4] ", f"{tmp_path}/one.npy", f"{tmp_path}/row.npy"):
        query = read_query(spec_at(tmp_path), given)
        assert isinstance(query, VectorQuery)
        assert query.vector.tolist() == pytest.approx([0.6, 0.8])


def test_what_it_is_may_be_said(tmp_path: Path) -> None:
    assert read_query(spec_at(tmp_path), "[1, 2]", "text").media == "text"
    assert read_query(spec_at(tmp_path), "about node.png", "text").media == "text"
    (tmp_path / "x").write_bytes(b"pixels")
    assert read_query(spec_at(tmp_path), str(tmp_path / "x"), "image").media == "image"


@pytest.mark.s3
def test_a_file_in_an_object_store_is_reached_as_the_source_is(s3: S3, tmp_path: Path) -> None:
    from tasks.protocol.storage import open_storage

    storage, path = open_storage(s3.url("queries/cat.png"), s3.storage_options)
    storage.write(path, b"pixels")
    spec = spec_at(tmp_path)
    source = {"path": s3.url("images"), "storage_options": s3.storage_options}
    spec = spec.model_copy(update={"source": spec.source.model_copy(update=source)})
    query = read_query(spec, s3.url("queries/cat.png"))
    assert query == MediaQuery(s3.url("queries/cat.png"), "image", b"pixels")


@pytest.mark.parametrize(
    ("given", "form", "problem"),
    [
        (" ", "auto", "is empty"),
        ("nowhere/cat.png", "auto", "--as text"),
        ("a cat", "image", "cannot be read as a file"),
        ("nosuch://bucket/cat.png", "auto", "cannot be read as a file"),
        ("[a cat]", "auto", "is not a vector: .*; to search for it as a text, use --as text"),
        ("[1, 'a']", "auto", "is not a vector"),
        ("[0, 0]", "auto", "all zeros"),
        ('["a"]', "auto", "is not a vector"),
        ("[[1, 2], [3, 4]]", "auto", "is not a vector"),
        (f"[1{'0' * 400}]", "auto", r"^query: '\[10{78}…' is not a vector: int too large"),
        ("[" * 100_000 + "]" * 100_000, "auto", r"^query: '\[{80}…' is not a vector"),
        ("{folder}/objects.npy", "auto", "is not a vector"),
        ("{folder}/text.npy", "auto", "is not a vector"),
        ("{folder}/empty.npy", "auto", "is not a vector"),
        ("{folder}/several.npy", "auto", "is not a vector"),
        ("{folder}/cut.npy", "auto", "is not a vector"),
    ],
)
def test_what_cannot_be_searched_for(
    tmp_path: Path, given: str, form: QueryForm, problem: str
) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "empty.npy").touch()
    np.savez(tmp_path / "several.npz", a=np.ones(2), b=np.ones(2))
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    np.save(tmp_path / "whole.npy", np.ones(99))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-9])
    with pytest.raises(InvalidSpec, match=problem):
        read_query(spec_at(tmp_path), given.format(folder=tmp_path), form)


@pytest.mark.parametrize(
    "given", ["https://user:hunter2@127.0.0.1:1/cat.jpg", "no://u:hunter2@h/c.png"]
)
def test_no_error_quotes_a_password(tmp_path: Path, given: str) -> None:
    with pytest.raises((InvalidSpec, Unreachable), match=r"://\*\*\*@") as raised:
        read_query(spec_at(tmp_path), given, "image")
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))
