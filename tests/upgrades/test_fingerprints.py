"""What models and code are known by, which no release may tell otherwise.

Ledgers and plans hold it: another word for the same files would have all outputs predicted again.
"""

from pathlib import Path

import pytest

from tasks.kinds.models import OnnxModel, PythonModel
from tasks.kinds.models.hf import folder


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of a model, and code of a user's."""
    files = {
        "model/config.json": "{}",
        "model/weights.bin": "weights",
        "known_code.py": "import known_beside\n",
        "known_beside.py": "FACTOR = 2\n",
    }
    (tmp_path / "model").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "model"


def test_files_of_a_model_are_known_by_what_they_hold(model: Path) -> None:
    known = "74c3a2284877010093f0e2af984b0d88662169f9737a7b8c2904bbdf79e254d7"
    assert OnnxModel(path=str(model), columns=["x"]).fingerprint() == known
    (model / ".hidden").write_text("of no account in a checkpoint")
    assert folder.digest(model) == known


def test_own_code_is_known_by_its_source(model: Path) -> None:
    own = PythonModel(class_="known_code:Scale", init={"a": 1}, weight_files=[str(model)])
    assert (own.fingerprint(), own.code_digest()) == ("69ac2ee2105e9b7c", "da4dd1535e37d26e")
