"""Weights are the file's own pages, not copied: replicas on one node share them."""

import gc
from pathlib import Path

import pytest

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tests.kinds.tiny_models import rows_of

MAPPED = "model.safetensors"


def mapped(file: Path) -> int:
    """Bytes of a file that this process has mapped and read."""
    resident, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line[0] in "0123456789abcdef":
            inside = line.endswith(str(file))
        elif inside and line.startswith("Rss:"):
            resident += int(line.split()[1]) * 1024
    return resident


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """90 MB of weights."""
    from transformers import BertConfig, BertModel

    from tests.kinds import tiny_models

    folder = tmp_path_factory.mktemp("bert")
    tiny_models.save_bert(folder)  # for its tokenizer
    config = BertConfig(hidden_size=768, num_hidden_layers=3, vocab_size=1_000)
    BertModel(config).save_pretrained(folder)
    return folder


def anonymous() -> int:
    """Bytes that this process has for itself, which no other shares."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(each.split()[1]) for each in lines if each.startswith("Anonymous:")) * 1024


def test_a_predictor_reads_the_file_where_it_lies(bert: Path) -> None:
    model = HuggingFaceModel(task="feature-extraction", name_or_path=str(bert))
    rows = model.preprocessor()(rows_of("text", ["one", "two"]))
    model.predictor(Placement())(rows)  # what torch takes when it is first used is not the model's
    gc.collect()
    before = anonymous()
    predictor = model.predictor(Placement())
    assert len(predictor(rows)) == 2
    size = (bert / MAPPED).stat().st_size
    # Of the words' embeddings only those of words that are there are read.
    assert mapped(bert / MAPPED) > 0.5 * size
    assert anonymous() - before < 0.1 * size
