"""Models that are asked in words are shown the image of each row."""

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.faked import faked
from tasks.kinds.models import HttpModel, VllmModel
from tasks.kinds.models.llm.endpoint import tokens_of
from tasks.kinds.models.model import Placement
from tasks.kinds.tensors import tensor_array
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import Outcome, call_with_blame
from tests.kinds.vllm_stand_in import vllm_stand_in
from tests.llm_server import MODEL, LlmServer, llm_server

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
NAMES = {"JPEG": "jpeg", "PNG": "png", "GIF": "gif", "WEBP": "webp"}


def encoded(kind: str) -> bytes:
    written = io.BytesIO()
    Image.fromarray(PIXELS).save(written, kind)
    return written.getvalue()


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as told:
        yield told


def asked(server: LlmServer, images: Any, prompts: list[Any] | None = None, **more: Any) -> Outcome:
    """What becomes of rows with these images; requests come one after another."""
    fields = {"image_column": "photo", "concurrency": 1, **more}
    model = HttpModel.model_validate({"url": server.url, "model": MODEL, **fields})
    rows = pa.table({ROW: pa.array(range(len(images)), pa.int64()), "photo": images})
    if prompts is not None:
        rows = rows.append_column("prompt", pa.array(prompts))
    model.refuse_types(rows.schema)
    return call_with_blame(model.predictor(Placement()), rows)


def shown(server: LlmServer) -> list[tuple[str, bytes]]:
    """Kind and bytes of the image in the last message of each request."""
    urls = [each["messages"][-1]["content"][0]["image_url"]["url"] for each in server.bodies]
    found = [url.removeprefix("data:image/").split(";base64,") for url in urls]
    return [(kind, base64.b64decode(data)) for kind, data in found]


def test_files_are_sent_as_they_are(server: LlmServer) -> None:
    files = [encoded(kind) for kind in NAMES]
    assert not asked(server, files, prompt="what is it?").failed
    assert shown(server) == list(zip(NAMES.values(), files, strict=True))
    text = {"type": "text", "text": "what is it?"}
    assert [body["messages"][0]["content"][1:] for body in server.bodies] == [[text]] * 4
    assert {each["role"] for body in server.bodies for each in body["messages"]} == {"user"}


@pytest.mark.parametrize("images", [[encoded("TIFF")], tensor_array([PIXELS])])
def test_others_and_arrays_as_png_whose_pixels_are_the_same(server: LlmServer, images: Any) -> None:
    assert not asked(server, images, prompt="?").failed
    ((kind, file),) = shown(server)
    assert kind == "png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(file))), PIXELS)


def test_a_row_without_an_image_is_set_aside_alone_and_unasked(server: LlmServer) -> None:
    images = [None, b"", b"no image", encoded("PNG")]
    outcome = asked(server, images, prompt="?")
    assert {at: str(error) for at, error in outcome.failed.items()} == {
        0: "column 'photo' is empty in this row; it must be an image",
        1: "the file has zero bytes",
        2: "the file is not an image that can be read",
    }
    assert len(server.bodies) == 1


def test_urls_are_the_models_to_fetch(server: LlmServer) -> None:
    drawn = "data:image/svg+xml,<svg/>"  # which vLLM's engine takes for its own failure
    outcome = asked(server, [" HTTPS://shop.example/a.jpg", "/a.jpg", drawn], prompt="?")
    assert "column 'photo' has '/a.jpg' in this row, which is not the URL" in str(outcome.failed[1])
    assert "or data:image/png;base64, or the like" in str(outcome.failed[2])
    (body,) = server.bodies
    (image, _) = body["messages"][0]["content"]
    assert image == {"type": "image_url", "image_url": {"url": "HTTPS://shop.example/a.jpg"}}


def test_it_stands_before_what_the_user_says_last(server: LlmServer) -> None:
    parts = [{"type": "text", "text": "and this?"}]
    talk: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "a cat"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "yes"}]},
        {"role": "user", "content": parts},
    ]
    silent = talk[1:2]
    images = [encoded("PNG")] * 2
    outcome = asked(server, images, [talk, silent], system_prompt="be brief")
    assert "no user message, but" in str(outcome.failed[1])
    (body,) = server.bodies
    system, first, answer, (last) = body["messages"]
    assert system == {"role": "system", "content": "be brief"}
    assert [first, answer] == talk[:2]
    assert [each["type"] for each in last["content"]] == ["image_url", "text"]


def test_an_image_is_no_text_of_as_many_tokens(server: LlmServer) -> None:
    """Else a limit of tokens a minute would hold requests back for minutes."""
    asked(server, [encoded("PNG") + bytes(900_000)], prompt="?", tokens_per_minute=1e9)
    (body,) = server.bodies
    assert 1_000 <= tokens_of(body) < 1_100


@pytest.mark.parametrize("kind", [HttpModel, VllmModel])
def test_what_fits_nothing_is_refused(kind: Any) -> None:
    named = {"url": "http://x/v1", "model": "m"} if kind is HttpModel else {"name_or_path": "m"}
    other = "embedding" if kind is HttpModel else "embed"
    for fields, problem in {
        ("image_column", "task"): "image_column: is for chat, not",
        ("prompt",): "it needs images: set their column in model.image_column",
        ("prompt", "image_column", "column"): "model.column has the prompt of each row",
    }.items():
        given = {**named, **dict.fromkeys(fields, "a")}
        given |= {"task": other} if "task" in fields else {}
        with pytest.raises(ValidationError, match=problem):
            kind.model_validate(given)
    model = kind.model_validate({**named, "image_column": "photo", "prompt": "?"})
    assert model.input_columns == ["photo"]
    without = kind.model_validate(named)
    assert (model.takes_encoded_media, without.takes_encoded_media) == (True, False)
    with pytest.raises(InvalidSpec, match=r"model\.image_column: 'photo' is int64"):
        model.refuse_types(pa.schema([("photo", pa.int64())]))
    made = faked(model).predictor(Placement())(pa.table({"photo": [b"x"]}))
    assert set(model.output_columns) == {*made.column_names}


def test_vllm_is_handed_the_same_messages() -> None:
    model = VllmModel(name_or_path="some/model", image_column="photo", prompt="?")
    assert (model.rows_per_call, VllmModel(name_or_path="some/model").rows_per_call) == (128, 1024)
    file = encoded("PNG")
    rows = pa.table({ROW: pa.array([1, 2], pa.int64()), "photo": [file, b"none"]})
    with vllm_stand_in() as engine:
        outcome = call_with_blame(model.predictor(Placement("cuda")), rows)
        ((message,),) = engine.made[0].conversations
    assert list(outcome.failed) == [2]
    image, text = message["content"]
    assert image["image_url"]["url"].endswith(base64.b64encode(file).decode())
    assert text == {"type": "text", "text": "?"}
