"""The texts and the model of the shipped deployment."""

import json
from pathlib import Path

import numpy as np
import pytest

from flows.demo_texts import DemoTexts, load_topics, prepare_texts, trained_tokenizer
from tests.kinds.tiny_models import predicted, rows_of


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> DemoTexts:
    return prepare_texts(tmp_path_factory.mktemp("texts"))


def test_a_file_for_each_topic_a_paragraph_a_line(texts: DemoTexts) -> None:
    files = sorted(texts.paragraphs.glob("*.txt"))
    assert len(files) == texts.num_files > 50
    assert sum(len(file.read_text().splitlines()) for file in files) == texts.num_paragraphs > 1_000


def test_a_topic_is_found_again_by_its_other_half(texts: DemoTexts) -> None:
    """What is written about one thing lies together; by chance 1 in 51 would be found."""
    long = [lines for lines in load_topics().values() if len(lines) >= 6]
    halves = [[" ".join(lines[part::2])[:1500] for lines in long] for part in (0, 1)]
    one, other = (embedded(texts.model, half) for half in halves)
    nearest = (one @ other.T).argmax(1)
    found = float((nearest == np.arange(len(long))).mean())
    assert found > 0.6


def test_the_same_texts_give_the_same_words(texts: DemoTexts) -> None:
    lines = [line for paragraphs in load_topics().values() for line in paragraphs]
    again = json.loads(trained_tokenizer(lines).to_str())
    assert again["model"] == json.loads((texts.model / "tokenizer.json").read_text())["model"]


def embedded(model: Path, lines: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Vectors of unit length."""
    rows = predicted(model, "feature-extraction", rows_of("text", lines))["embedding"].to_pylist()
    vectors = np.array(rows, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_what_is_there_is_used_again(texts: DemoTexts) -> None:
    written = (texts.model / "model.safetensors").stat().st_mtime_ns
    assert prepare_texts(texts.folder) == texts
    assert (texts.model / "model.safetensors").stat().st_mtime_ns == written
