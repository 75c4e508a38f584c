"""What vLLM's own engine makes of images, beside transformers: `make test-vllm`."""

import gc
import io
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from tasks.errors import StageFailed
from tasks.kinds.images import BadImage
from tasks.kinds.models.llm.engine import Engine
from tasks.kinds.models.llm.fetched_images import MANY, fetch_of
from tests.kinds.tiny_seers import PLACES, SIDE, save_qwen2_vl
from tests.kinds.vllm_engines import OPTIONS, loaded, model_of, outcome, rows_of, texts_of, whole

vllm = pytest.importorskip("vllm", reason="vLLM is not here: make test-vllm")
pytest.importorskip("torchvision", reason="vLLM's images need torchvision: make test-vllm")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

SHOWN: dict[str, Any] = {"image_column": "image", "options": OPTIONS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("qwen")
    save_qwen2_vl(made)
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    yield loaded(model_of(folder, PLACES, **SHOWN))
    gc.collect()


def pictures() -> list[np.ndarray]:
    """Noise of several shapes, which are cut into different numbers of parts."""
    random = np.random.default_rng(0)
    shapes = [(2, 2), (2, 3), (4, 2), (1, 5)]
    return [
        random.integers(0, 256, (SIDE * high, SIDE * wide, 3), dtype=np.uint8)
        for high, wide in shapes
    ]


def file_of(pixels: np.ndarray, kind: str) -> bytes:
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, kind, lossless=True)
    return written.getvalue()


def shown(prompts: list[str], images: Sequence[bytes | str | None]) -> pa.Table:
    return rows_of(prompts).append_column("image", pa.array(images))


def by_transformers(folder: Path, prompts: list[str], images: list[np.ndarray]) -> list[str]:
    """What transformers writes, greedily, shown one image at a time."""
    import transformers

    processor = transformers.AutoProcessor.from_pretrained(folder)
    alone = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    said = []
    for prompt, image in zip(prompts, images, strict=True):
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        text = processor.apply_chat_template([{"role": "user", "content": content}])
        inputs = processor(text=[text], images=[Image.fromarray(image)], return_tensors="pt")
        out = alone.generate(**inputs, max_new_tokens=8, do_sample=False, pad_token_id=0)
        new = out[0, inputs["input_ids"].shape[1] :]
        said.append(whole(processor.tokenizer.decode(new, skip_special_tokens=True)))
    return said


def test_texts_about_images_are_transformers_own(engine: Engine, folder: Path) -> None:
    images = pictures()
    prompts = ["what is it?", "hello", "x", "and this?"]
    kinds = ["png", "webp", "tiff", "png"]
    files = [file_of(image, kind) for image, kind in zip(images, kinds, strict=True)]
    found = outcome(engine, model_of(folder, PLACES, **SHOWN), shown(prompts, files))
    assert not found.failed
    assert texts_of(found) == by_transformers(folder, prompts, images)
    assert found.rows is not None
    parts = [image.shape[0] * image.shape[1] // SIDE**2 for image in images]
    words = [len("u") + 2 + part + len(p) for part, p in zip(parts, prompts, strict=True)]
    assert found.rows["prompt_tokens"].to_pylist() == words


def test_the_image_makes_the_text(engine: Engine, folder: Path) -> None:
    files = [file_of(each, "png") for each in pictures()]
    found = outcome(engine, model_of(folder, PLACES, **SHOWN), shown(["hello"] * 4, files))
    assert len(set(texts_of(found))) > 1


def test_rows_without_an_image_or_with_a_damaged_one_are_set_aside(
    engine: Engine, folder: Path
) -> None:
    image = pictures()[0]
    whole_file = file_of(image, "png")
    files = [whole_file, None, whole_file[:200], b"no image", whole_file]
    found = outcome(engine, model_of(folder, PLACES, **SHOWN), shown(["hello"] * 5, files))
    assert sorted(found.failed) == [1, 2, 3]
    assert texts_of(found) == by_transformers(folder, ["hello"] * 2, [image] * 2)


def huge(file: bytes) -> bytes:
    """A PNG that says that it has far more pixels than anybody wants."""
    head = b"IHDR" + struct.pack(">2I", 1 << 16, 1 << 16) + file[24:29]
    return file[:12] + head + struct.pack(">I", zlib.crc32(head)) + file[33:]


def test_an_image_of_too_many_pixels_costs_no_other_row(engine: Engine, folder: Path) -> None:
    image = pictures()[0]
    whole_file = file_of(image, "png")
    files = [whole_file, huge(whole_file)]
    found = outcome(engine, model_of(folder, PLACES, **SHOWN), shown(["hello"] * 2, files))
    assert list(found.failed) == [1]
    assert texts_of(found) == by_transformers(folder, ["hello"], [image])


@contextmanager
def web(files: dict[str, bytes]) -> Iterator[str]:
    """A server of files that answers 429 for all else."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            file = files.get(self.path.strip("/"))
            self.send_response(429 if file is None else 200)
            self.end_headers()
            self.wfile.write(file or b"")

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_url_that_cannot_be_fetched_costs_no_other_row(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten million one always leads to a server that is gone."""
    monkeypatch.setattr("vllm.envs.VLLM_MEDIA_FETCH_MAX_RETRIES", 1)
    image = pictures()[0]
    with web({"a.png": file_of(image, "png"), "b.png": b"no image"}) as server:
        with web({}) as gone:
            pass
        urls = [f"{server}/{name}.png" for name in "abc"] + [f"{gone}/a.png"]
        model = model_of(folder, PLACES, **SHOWN)
        found = outcome(engine, model, shown(["hello"] * 4, urls))
    assert sorted(found.failed) == [1, 2, 3]
    assert str(found.failed[3]).startswith(f"the image {gone}/a.png cannot be fetched: Connection")
    assert texts_of(found) == by_transformers(folder, ["hello"], [image])
    with pytest.raises(StageFailed, match=f"none of {MANY} images could be fetched"):
        outcome(engine, model, shown(["hello"] * MANY, [urls[3]] * MANY))


def test_only_domains_that_the_engine_allows_are_asked() -> None:
    """Rows may be strangers', and the worker's network is not."""
    config = SimpleNamespace(allowed_media_domains=["shop.example"])
    with web({"a.png": b"secret"}) as server:
        host = server.partition("//")[2].partition(":")[0]
        with pytest.raises(BadImage, match=f"allowed domains: .*shop.example.* {host}"):
            fetch_of(SimpleNamespace(model_config=config))(f"{server}/a.png")
        config.allowed_media_domains = [host]
        assert fetch_of(SimpleNamespace(model_config=config))(f"{server}/a.png") == b"secret"


def test_a_prompt_that_leaves_an_image_no_room_costs_no_other_row(
    engine: Engine, folder: Path
) -> None:
    image = pictures()[0]
    files = [file_of(image, "png")] * 2
    prompts = ["hello", "x" * PLACES]
    found = outcome(engine, model_of(folder, PLACES, **SHOWN), shown(prompts, files))
    assert list(found.failed) == [1]
    assert str(PLACES) in str(found.failed[1])
    assert texts_of(found) == by_transformers(folder, ["hello"], [image])
