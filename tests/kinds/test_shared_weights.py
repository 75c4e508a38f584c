"""Weights are the file's own pages, not copied: replicas on one node share them."""

import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE, Popen

import numpy as np
import pytest

from tasks.kinds.models.model import Placement
from tests.kinds import tiny_models
from tests.kinds.memory import memory_of

REPLICAS = 2  # `make bench ROW=shared_weights` has four of a larger model


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few weights."""
    folder = tmp_path_factory.mktemp("small")
    tiny_models.save_bert(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 MB of weights."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("bert")
    tiny_models.save_bert(folder)  # for its tokenizer
    config = BertConfig(hidden_size=768, num_hidden_layers=4, vocab_size=1_000)
    BertModel(config).save_pretrained(folder)
    return folder


def test_processes_hold_the_weights_once(bert: Path, small: Path) -> None:
    """All live, and each has used them; a copy would be among what it takes for itself."""
    command = [sys.executable, "-m", "tests.kinds.one_replica", str(bert), str(small)]
    file = bert / "model.safetensors"
    with ExitStack() as all_live:
        replicas = [
            all_live.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True))
            for _ in range(REPLICAS)
        ]
        taken = [int(each.stdout.readline()) for each in replicas if each.stdout]
        held = [memory_of(each.pid, file) for each in replicas]
    size = file.stat().st_size
    # Of the words' embeddings only those of words that are there are read.
    assert min(each.seen for each in held) > 0.8 * size
    assert max(taken) < 0.1 * size
    assert sum(each.share for each in held) + sum(taken) < 1.2 * size


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """An ONNX model: ten products with 36 MB of weights."""
    import onnx
    from onnx import helper, numpy_helper

    random = np.random.default_rng(0)
    weights = [random.standard_normal((950, 950), dtype=np.float32) / 30 for _ in range(10)]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(10)],
        "graph",
        [helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, ["rows", 950])],
        [helper.make_tensor_value_info("x10", onnx.TensorProto.FLOAT, ["rows", 950])],
        [numpy_helper.from_array(each, f"w{n}") for n, each in enumerate(weights)],
    )
    opset = helper.make_opsetid("", 17)
    file = tmp_path / "model.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[opset], ir_version=9), file)
    return file


def test_onnxruntime_keeps_no_copy_of_the_file(products: Path) -> None:
    """Weights are in its memory twice: as they are, and in the order that its products want."""
    from tasks.kinds.models.tensors import onnx_session

    before = memory_of("self", products).own
    sessions = [onnx_session.opened(products, True, Placement()) for _ in range(REPLICAS)]
    for each in sessions:
        each.run(None, {"x0": np.zeros((2, 950), np.float32)})
    taken = memory_of("self", products).own - before
    assert taken / REPLICAS < 2.2 * products.stat().st_size
