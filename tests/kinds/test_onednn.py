"""oneDNN: few primitives kept; matrix products, the same from the same weights, where faster."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.kinds.models import onednn
from tasks.kinds.models.model import Placement
from tests.kinds.tiny_models import predicted, rows_of, save_bert, save_gpt2, texts

ROWS = rows_of("text", texts(9))
TEXTS = """
from types import SimpleNamespace
from tasks.kinds.models.hf.text import TextInputs

TextInputs(SimpleNamespace(pad_token_id=0, eos_token_id=0, padding_side="right"), Placement())
"""
IMAGES = """
from tasks.kinds.models.vision.detection import Choice, detect_with

choice = Choice.by([], None, None)
detect_with(lambda rows: (), torch.nn.Identity(), lambda model: model, choice, Placement())
"""
"""Of detectors: of other models all images have one size."""
HEAD = "import torch; from tasks.kinds.models.model import Placement"
LENGTHS_AND_THE_FIRST_AGAIN = """
for length in (*range(1, 41), 40, 1):
    torch.nn.functional.gelu(torch.ones(8, length, 64))
"""


@pytest.fixture
def brought_along() -> None:
    """Go on where torch has oneDNN."""
    import torch

    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")


@pytest.fixture
def faster(brought_along: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Any machine is one on which oneDNN is the faster; what it says of its processor."""
    import torch

    (tmp_path / "cpuinfo").write_text("vendor_id\t: AuthenticAMD\n")
    monkeypatch.setattr(onednn, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    return tmp_path / "cpuinfo"


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Layers whose products oneDNN has done."""
    done: list[Any] = []
    real = onednn.multiply

    def multiply(module: Any, values: Any, turned: bool) -> Any:
        done.append(module)
        return real(module, values, turned)

    monkeypatch.setattr(onednn, "multiply", multiply)
    return done


def test_embeddings_are_those_of_torch(faster: Path, products: list[Any], tmp_path: Path) -> None:
    save_bert(tmp_path)
    made = predicted(tmp_path, "feature-extraction", ROWS)
    assert products
    products.clear()
    faster.write_text("vendor_id\t: GenuineIntel\n")
    wanted = predicted(tmp_path, "feature-extraction", ROWS)
    assert not products
    vectors, expected = (np.array(each["embedding"].to_pylist()) for each in (made, wanted))
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.usefixtures("faster")
def test_layers_of_gpt2_keep_their_weights(tmp_path: Path) -> None:
    import torch

    model = save_gpt2(tmp_path).eval()
    ids = torch.arange(12).view(3, 4)
    places = [each.data_ptr() for each in model.parameters()]
    with torch.inference_mode():
        wanted = model(input_ids=ids).logits
        onednn.multiply_faster(model, Placement())
        made = model(input_ids=ids).logits
    torch.testing.assert_close(made, wanted, atol=1e-5, rtol=1e-5)
    assert [each.data_ptr() for each in model.parameters()] == places
    turned = [each for each in model.modules() if "forward" in vars(each)]
    assert len(turned) == 4 * model.config.n_layer + 1, "four a layer, and the words' scores"


@pytest.mark.usefixtures("faster")
def test_other_precisions_are_left_alone(tmp_path: Path) -> None:
    import torch

    model = save_bert(tmp_path).to(torch.bfloat16)
    onednn.multiply_faster(model, Placement())
    assert not [each for each in model.modules() if "forward" in vars(each)]


def test_only_where_it_is_faster(faster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert onednn.faster_here(faster)
    assert not onednn.faster_here(faster.with_name("none"))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not onednn.faster_here(faster)


@pytest.mark.usefixtures("brought_along")
@pytest.mark.parametrize(
    ("inputs", "by_user", "kept"),
    [(TEXTS, {}, "miss"), (IMAGES, {}, "miss"), (TEXTS, {onednn.CAPACITY: "1024"}, "hit")],
)
def test_few_primitives_are_kept_where_inputs_differ_in_shape(
    inputs: str, by_user: dict[str, str], kept: str
) -> None:
    """OneDNN looks at the setting once a process, and says what it makes and what it has."""
    others = {name: value for name, value in os.environ.items() if name != onednn.CAPACITY}
    environment = others | {"ONEDNN_VERBOSE": "profile_create"} | by_user
    command = [sys.executable, "-c", HEAD + inputs + LENGTHS_AND_THE_FIRST_AGAIN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.findall("create:cache_(hit|miss)", done.stdout)
    assert found == ["miss"] * 40 + ["hit", kept]
