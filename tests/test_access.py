"""What this user may not read is one message: the field, the path and the way out."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import plain_commands
from tasks.access import access_told, field_of
from tasks.errors import Unreachable
from tasks.plan import make_plan
from tasks.planning.preflight import check_spec
from tasks.publish import publish_planned
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.kinds.tiny_models import save_bert
from tests.reporting import run_attempt

NOBODY = 65_534


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody may look into, as those of pytest's are not."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o777)
        (folder / "in").mkdir()
        pq.write_table(pa.table({"id": [1, 2], "x": [1.0, 2.0]}), folder / "in/a.parquet")
        (folder / "in/a.csv").write_text("id,x\n1,2\n")
        (folder / "code").mkdir()
        code = "def double(batch):\n    return {'y': batch['x']}\n"
        (folder / f"code/{module_of(folder)}.py").write_text(code)
        yield folder


def module_of(folder: Path) -> str:
    """A process imports one module of a name."""
    return f"double_{folder.name}"


@contextmanager
def closed(path: Path) -> Iterator[None]:
    """A file or folder that this user may not read; root, who may, is nobody meanwhile."""
    mode, root = stat.S_IMODE(path.stat().st_mode), os.geteuid() == 0
    path.chmod(0)
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        path.chmod(mode)


def open_to_all(folder: Path) -> None:
    """Files that libraries have written for their user alone."""
    for path in folder.iterdir():
        path.chmod(0o644)


def doubled(folder: Path, **changes: Any) -> BatchInferenceSpec:
    own = {"model": {"kind": "python", "class": f"{module_of(folder)}:double"}}
    code = {"environment": {"working_dir": str(folder / "code")}}
    return spec_of(folder / "in", **{**own, **code, **changes})


def csv(folder: Path) -> BatchInferenceSpec:
    return doubled(folder, source={"kind": "csv", "path": f"file://{folder}/in/*.csv"})


def scikit(folder: Path) -> BatchInferenceSpec:
    import skops.io
    from sklearn.linear_model import LinearRegression

    fitted = LinearRegression().fit(np.ones((3, 1)), np.ones(3))
    skops.io.dump(fitted, folder / "m.skops")
    return doubled(
        folder, model={"kind": "sklearn", "path": str(folder / "m.skops"), "columns": ["x"]}
    )


def texts(folder: Path) -> BatchInferenceSpec:
    (folder / "bert").mkdir()
    save_bert(folder / "bert")
    open_to_all(folder / "bert")
    (folder / "in/a.txt").write_text("words\n")
    model = {"kind": "huggingface", "task": "text-classification"}
    model["name_or_path"] = str(folder / "bert")
    return doubled(folder, model=model, source={"kind": "text", "path": str(folder / "in")})


def of_folders(folder: Path) -> BatchInferenceSpec:
    return doubled(folder, source={"kind": "parquet", "path": f"{folder}/i*/a.parquet"})


Make = Callable[[Path], BatchInferenceSpec]
CLOSED: dict[str, tuple[Make, str, str]] = {
    "Parquet": (doubled, "in/a.parquet", "source.path"),
    "CSV": (csv, "in/a.csv", "source.path"),
    "folder": (doubled, "in", "source.path"),
    "folder of a glob": (of_folders, "in", "source.path"),
    "module": (doubled, "code/double_*.py", "environment.working_dir"),
    "estimator": (scikit, "m.skops", "model.path"),
    "config": (texts, "bert/config.json", "model.name_or_path"),
    "weights": (texts, "bert/model.safetensors", "model.name_or_path"),
}


@pytest.mark.parametrize(("make", "path", "field"), CLOSED.values(), ids=CLOSED.keys())
def test_what_may_not_be_read_is_told_with_its_field(
    folder: Path, make: Make, path: str, field: str
) -> None:
    spec = make(folder)
    make_plan(spec, save=False)
    (found,) = folder.glob(path)
    told = rf"^{field}: '{found}' cannot be accessed by this user \(Permission denied\): give this"
    with closed(found), pytest.raises(Unreachable, match=told):
        make_plan(spec, save=False)
    make_plan(spec, save=False)


@pytest.mark.parametrize("path", ["in", "in/*/*.csv", "in/**/*.csv", "in/*", "in/[bc]/b.csv"])
def test_a_folder_that_may_not_be_listed_is_never_passed_over(folder: Path, path: str) -> None:
    """Its rows would be missing, and nobody would know."""
    (folder / "in/a.csv").unlink()
    (folder / "in/a.parquet").unlink()
    for name in ("b", "c"):
        (folder / f"in/{name}").mkdir()
        (folder / f"in/{name}/{name}.csv").write_text("id,x\n1,2\n")
    source = {"kind": "csv", "path": f"{folder}/{path}"}
    left_out = {**source, "exclude": ["b/"]}
    not_all = {**source, "exclude": ["b/x", "b/*.txt", "*.bak"]}
    told = rf"^source\.path: '{folder}/in/b' cannot be .* or leave it out with source\.exclude$"
    with closed(folder / "in/b"):
        for each in (source, not_all):
            with pytest.raises(Unreachable, match=told):
                make_plan(doubled(folder, source=each), save=False)
        if "[bc]" not in path:
            make_plan(doubled(folder, source=left_out), save=False)


@pytest.mark.parametrize("path", ["in", "in/**/*.csv"])
def test_a_hidden_folder_need_not_be_listed(folder: Path, path: str) -> None:
    (folder / "in/.trash").mkdir()
    with closed(folder / "in/.trash"):
        make_plan(doubled(folder, source={"kind": "csv", "path": f"{folder}/{path}"}), save=False)


def test_a_commands_first_look_says_it_too(folder: Path) -> None:
    """`run`, `preview` and `redrive` look before they start a flow."""
    spec = scikit(folder)
    told = r"^model\.path: .*give this user access"
    with closed(folder / "m.skops"), pytest.raises(Unreachable, match=told):
        check_spec(spec)


LEDGER = "out.state/ledger"


@pytest.mark.parametrize("path", [LEDGER, f"{LEDGER}/_delta_log", f"{LEDGER}/_delta_log/*1.json"])
@pytest.mark.parametrize("verb", ["check", "status", "clean"])
def test_a_ledger_that_may_not_be_read(
    folder: Path, verb: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = doubled(folder)
    planned = make_plan(spec)
    run_attempt(planned)
    publish_planned(planned)
    for each in (folder / "out.state", folder / "out"):
        each.chmod(0o777)
    file = folder / "spec.json"
    file.write_text(spec.model_dump_json(by_alias=True))
    (found,) = folder.glob(path)
    calls: dict[str, Callable[[], None]] = {
        "check": lambda: plain_commands.check_spec_file(file, None, None),
        "status": lambda: plain_commands.print_status(file, None, None, as_json=False),
        "clean": lambda: plain_commands.clean_output(file, False, None, None, as_json=False),
    }
    with closed(found), pytest.raises(Unreachable, match=rf"^sink\.path: '{folder}/{LEDGER}") as no:
        calls[verb]()
    assert "cannot be accessed by this user" in str(no.value)
    capsys.readouterr()
    calls[verb]()
    assert "wrong" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/data/in/day=1/a.parquet", "source.path"),
        ("/data/in", "source.path"),
        ("/data/in.state", None),
        ("/data/out.state/ledger/_delta_log", "sink.path"),
        ("/data/code/steps.py", "environment.working_dir"),
        ("/data/other.py", None),
    ],
)
def test_the_field_that_leads_to_a_file(path: str, field: str | None) -> None:
    source = {"kind": "parquet", "path": "file:///data/in/day=*/*.parquet"}
    sink = {"kind": "parquet", "path": "/data/out"}
    code = {"working_dir": "/data/code"}
    spec = spec_of(Path("/data"), source=source, sink=sink, environment=code)
    assert field_of(spec, path) == field


def test_a_refusal_without_a_path() -> None:
    told = r"no access to something the spec names: Forbidden; allow this user, or the credentials"
    with pytest.raises(Unreachable, match=told), access_told(spec_of(Path("/data"))):
        raise PermissionError("Forbidden")


def test_a_bucket_s_paths_lead_to_their_field() -> None:
    places = {
        "source": {"kind": "parquet", "path": "s3://bucket/in"},
        "sink": {"kind": "parquet", "path": "s3://bucket/out"},
    }
    spec = spec_of(Path("/data"), **places)
    assert field_of(spec, "bucket/in/a.parquet") == "source.path"
    assert field_of(spec, "bucket/out.state/ledger") == "sink.path"
