"""Models that lie elsewhere: fetched once for all replicas of a node, known by their content."""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.errors import InputChanged, InvalidSpec, Unreachable
from tasks.kinds.models import KerasModel, OnnxModel, TorchModel, fetched_files
from tasks.kinds.models.file_model import FileModel
from tasks.protocol.storage import open_storage
from tests.kinds.digits import digits_module, logits, predicted, rows_of, unseen, values
from tests.kinds.test_onnx import digits_model
from tests.s3_server import S3

pytestmark = pytest.mark.s3


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each fetching of a model on this node, whose temporary folder is the test's."""
    calls = []
    fetch = fetched_files.fetch

    def counting(storage: Any, files: Any, folder: Path) -> None:
        calls.append(folder)
        fetch(storage, files, folder)

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(fetched_files, "fetch", counting)
    return calls


def put(s3: S3, file: Path, to: str) -> str:
    url = s3.url(f"{file.parent.parent.name}/{to}")
    storage, path = open_storage(url, s3.storage_options)
    storage.write(path, file.read_bytes())
    return url


def test_two_loads_are_one_download(s3: S3, tmp_path: Path, fetched: list[Path]) -> None:
    local = digits_model(tmp_path / "local" / "digits.onnx", beside=True)
    put(s3, local.with_name("weights.bin"), "model/weights.bin")
    url = put(s3, local, "model/digits.onnx").removesuffix("/digits.onnx")
    model = OnnxModel(path=url, storage_options=s3.storage_options, columns=["pixels"])
    rows = rows_of(pixels=unseen())
    with ThreadPoolExecutor() as replicas:
        made = [*replicas.map(lambda _: predicted(model, rows), range(3))]
    for each in made:
        np.testing.assert_allclose(values(each), logits(), atol=1e-5)
    assert len(fetched) == 1
    first = model.fingerprint()

    changed = bytearray(local.with_name("weights.bin").read_bytes())
    changed[:2560] = bytes(2560)  # the matrix becomes zero
    local.with_name("weights.bin").write_bytes(changed)
    put(s3, local.with_name("weights.bin"), "model/weights.bin")
    assert model.fingerprint() != first
    assert np.abs(values(predicted(model, rows)) - logits()).max() > 1
    assert len(fetched) == 2


def test_a_single_file_is_checked_where_it_lies(
    s3: S3, tmp_path: Path, fetched: list[Path]
) -> None:
    import torch

    (tmp_path / "local").mkdir()
    file = tmp_path / "local" / "digits.pt"
    torch.save(digits_module().state_dict(), file)
    url = put(s3, file, "digits.pt")
    fields = {"storage_options": s3.storage_options, "columns": ["pixels"]}
    model = TorchModel.model_validate(
        {"path": url, "class": "tests.kinds.torch_code:Digits", **fields}
    )
    model.check()
    torch.save(digits_module(), file)
    pickled = model.model_copy(update={"path": put(s3, file, "module.pt")})
    with pytest.raises(InvalidSpec, match="never unpickled"):
        pickled.check()
    assert not fetched, "to check a model it is not fetched"
    np.testing.assert_allclose(
        values(predicted(model, rows_of(pixels=unseen()))), logits(), atol=1e-5
    )
    with pytest.raises(InvalidSpec, match="has no file; check the path"):
        model.model_copy(update={"path": s3.url("nowhere.pt")}).check()
    away = {"endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"max_attempts": 0}}}
    with pytest.raises(Unreachable, match=r"model.path: .* cannot be reached"):
        model.model_copy(update={"storage_options": away}).check()


def test_what_was_tidied_away_or_cut_off_is_fetched_again(
    tmp_path: Path, fetched: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a system's own timer does, which takes old temporary files and leaves their folders."""
    storage, path = open_storage("memory://models/digits.onnx")
    storage.write(path, b"weights")
    model = OnnxModel(path="memory://models/digits.onnx", columns=["pixels"])
    with monkeypatch.context() as patched:
        patched.setattr(type(storage.filesystem), "get_file", cut_off_after_a_few_bytes)
        with pytest.raises(OSError, match="cut off"):
            model.local()
    for _ in range(2):
        assert model.local().read_bytes() == model.local().read_bytes() == b"weights"
        model.local().unlink()
    assert len(fetched) == 3
    assert [each for each in (tmp_path / "tmp").rglob("*.onnx")] == []


def model_at(url: str, content: bytes) -> OnnxModel:
    """A model in memory, of which nothing is known but its size."""
    storage, path = open_storage(url)
    storage.write(path, content)
    return OnnxModel(path=url, columns=["pixels"])


def test_models_of_one_size_at_two_places_are_two(fetched: list[Path]) -> None:
    """As those of each region are, that one script trains: of the same layers, in one second."""
    north = model_at("memory://north/digits.onnx", b"northern")
    south = model_at("memory://south/digits.onnx", b"southern")
    assert north.fingerprint() == south.fingerprint()
    found = [each.local().read_bytes() for each in (north, south, north)]
    assert found == [b"northern", b"southern", b"northern"]
    assert len(fetched) == 2


def test_what_is_replaced_while_it_is_fetched_is_not_kept(
    fetched: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who puts the old model back would get the new one, under its name."""
    url = "memory://nightly/digits.onnx"
    model = model_at(url, b"old")
    storage, path = open_storage(url)
    get_file = type(storage.filesystem).get_file

    def late(filesystem: Any, source: str, target: str) -> None:
        storage.write(path, b"another one")
        get_file(filesystem, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(type(storage.filesystem), "get_file", late)
        with pytest.raises(InputChanged, match=r"'memory:///?nightly/digits.onnx' was replaced"):
            model.local()
    storage.write(path, b"old")
    assert model.local().read_bytes() == b"old"


def test_nobody_else_can_put_a_model_in_the_place_of_one_that_is_fetched(
    tmp_path: Path, fetched: list[Path]
) -> None:
    model = model_at("memory://models/digits.onnx", b"weights")
    model.local()
    (folder,) = (tmp_path / "tmp").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(InvalidSpec, match=r"^TMPDIR: .*is not a folder that only you own"):
        model.local()


def test_a_model_that_nobody_wants_any_more_is_removed(fetched: list[Path]) -> None:
    """One that is trained each night would fill the disk."""
    month = fetched_files.KEPT_SECONDS
    ages = {"old": month + 60, "new": month - 60, "used again": month + 60}
    places = {name: model_at(f"memory://{name}/digits.onnx", b"weights") for name in ages}
    files = {name: model.local() for name, model in places.items()}
    now = time.time()
    for name, age in ages.items():
        os.utime(fetched_files.lock_of(files[name].parent), (now - age, now - age))
    half = fetched_files.unfinished_of(files["old"].parent)
    half.mkdir()  # of a replica that was killed
    assert places["used again"].local() == files["used again"]
    model_at("memory://newest/digits.onnx", b"weights").local()
    assert {name for name, file in files.items() if file.exists()} == {"new", "used again"}
    assert not half.exists()
    assert places["old"].local().read_bytes() == b"weights"


def cut_off_after_a_few_bytes(filesystem: Any, source: str, target: str) -> None:
    Path(target).write_bytes(b"wei")
    raise OSError("the connection was cut off")


def test_another_process_waits_for_the_first(tmp_path: Path) -> None:
    """What threads show is no proof for processes."""
    code = (
        "import sys; from pathlib import Path\n"
        "from tasks.kinds.models.fetched_files import alone_with\n"
        "with alone_with(Path(sys.argv[1])): print('in', flush=True); sys.stdin.read()"
    )
    folder = tmp_path / "models" / "digest"
    command = [sys.executable, "-c", code, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as first:
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "in\n"
        with ThreadPoolExecutor() as pool:
            second = pool.submit(enter, folder)
            with pytest.raises(TimeoutError):
                second.result(timeout=0.3)
            first.stdin.close()
            assert second.result(timeout=60)


def enter(folder: Path) -> bool:
    with fetched_files.alone_with(folder):
        return True


@pytest.mark.parametrize(
    ("kind", "name"), [(OnnxModel, "m.onnx"), (KerasModel, "m.keras"), (TorchModel, "m.pt")]
)
def test_gits_pointer_is_told_from_the_file(
    kind: type[FileModel], name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    model = kind.model_validate({"path": str(tmp_path / name), "columns": ["x"]})
    with pytest.raises(InvalidSpec, match=r"model\.path: .*: git lfs pull$"):
        model.check()
