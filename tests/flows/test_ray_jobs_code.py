"""What is sent to a cluster: code, and little else."""

import os
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flows.batch_inference import batch_inference
from tasks.clusters.ray_jobs import OUR_CODE, runtime_env
from tasks.clusters.shipped import NOT_SHIPPED, outputs_in
from tasks.kinds.models.huggingface import HuggingFaceModel
from tasks.plan import make_plan
from tasks.ray_job.job import Job
from tasks.run import left_to_do, new_job
from tasks.scheduled import at_time, timed_inputs
from tasks.spec_file import parse_spec
from tests.flows.conftest import published, spec_of
from tests.flows.jobs_cluster import CODE, jobs_spec
from tests.ray_cluster import ray_cluster


def packed(folder: str | Path, excludes: list[str], target: Path) -> set[str]:
    """Files of a package as Ray packs it."""
    from ray._private.runtime_env.packaging import create_package

    create_package(str(folder), target, include_gitignore=True, excludes=excludes)
    with zipfile.ZipFile(target) as package:
        return {name for name in package.namelist() if not name.endswith("/")}


def job_of(numbers: Path, code: Path, source: Path, **changes: Any) -> Job:
    """A job whose inputs and output may lie beside its code; it is never started."""
    spec = spec_of(
        numbers,
        source={"kind": "parquet", "path": str(source), "exclude": ["*/results/*"]},
        model={"kind": "python", "class": "speaking:Speaking"},
        environment={"working_dir": str(code), **changes},
        sink={"kind": "parquet", "path": str(code / "results/out")},
        cluster={"kind": "local"},
    )
    planned = make_plan(spec)
    return new_job(planned, left_to_do(planned, tried=False), attempt=1)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A user's folder with all that should stay at home."""
    folder = tmp_path / "code"
    shutil.copytree(CODE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for home in (
        "tests/test_it.py",
        "__pycache__/voice.pyc",
        "package/__pycache__/a.pyc",
        ".git/objects/1",
        ".venv/lib/big.py",
        "node_modules/x.js",
        ".mypy_cache/x.json",
        "results/out/part-0.parquet",
        "results/out.state/ledger/0.json",
    ):
        (folder / home).parent.mkdir(parents=True, exist_ok=True)
        (folder / home).write_text("stays here")
    (folder / "package/part.py").touch()
    return folder


CODE_FILES = {"speaking.py", "voice.py", "lacking.py", "package/part.py"}


@pytest.mark.parametrize("bring", [shutil.copytree, os.symlink])
@pytest.mark.parametrize("name", ["inputs", "protocol"])
def test_of_the_users_folder_code_alone_is_sent(
    numbers: Path, code: Path, tmp_path: Path, name: str, bring: Callable[[Path, Path], object]
) -> None:
    """Also where inputs have the name that a folder of our own code has."""
    bring(numbers, code / name)
    sent = runtime_env(job_of(numbers, code, code / name), "gcs://ours.zip")
    assert sent["py_modules"] == ["gcs://ours.zip"]
    assert packed(sent["working_dir"], sent["excludes"], tmp_path / "a.zip") == CODE_FILES


def test_what_other_nights_have_published_stays_at_home(
    numbers: Path, code: Path, tmp_path: Path
) -> None:
    """Each night would else send all those before it, until the cluster takes no more."""
    for night in ("2026-01-30", "2026-01-31 [old]"):
        for file in (f"{night}/part-0.parquet", f"{night}.state/ledger/_delta_log/0.json"):
            (code / "results" / file).parent.mkdir(parents=True, exist_ok=True)
            (code / "results" / file).touch()
    for file in ("plans/mine.py", "plans.state/mine.py"):  # no output, whatever its name is
        (code / file).parent.mkdir()
        (code / file).touch()
    (code / "package/round").symlink_to(code, target_is_directory=True)
    assert list(outputs_in(str(code), [])) == [
        str(code / "results" / name) for name in ("2026-01-30", "2026-01-31 [old]", "out")
    ]
    (code / "package/round").unlink()
    sent = runtime_env(job_of(numbers, code, numbers), "gcs://ours.zip")
    files = packed(sent["working_dir"], sent["excludes"], tmp_path / "a.zip")
    assert files == {*CODE_FILES, "plans/mine.py"}


@pytest.mark.parametrize("place", ["{code}/in/{time}", "file://{code}/in/{time}/*.parquet"])
def test_inputs_of_other_nights_stay_at_home(
    numbers: Path, code: Path, tmp_path: Path, place: str
) -> None:
    for file in ("2026-01-30/0.parquet", "2026-01-31/0.parquet", "2026-02-01/0.parquet"):
        (code / "in" / file).parent.mkdir(parents=True)
        (code / "in" / file).touch()
    (code / "in/of_dates.py").touch()
    path = place.replace("{code}", str(code)).replace("{time}", "{scheduled:%Y-%m-%d}")
    job = job_of(numbers, code, numbers)
    written = job.spec.model_copy(
        update={"source": job.spec.source.model_copy(update={"path": path})}
    )
    spec = at_time(written, datetime(2026, 1, 31, tzinfo=UTC))
    job = replace(job, spec=spec, timed_inputs=timed_inputs(written))
    sent = runtime_env(job, "gcs://ours.zip")
    files = packed(sent["working_dir"], sent["excludes"], tmp_path / "a.zip")
    assert files == {*CODE_FILES, "in/of_dates.py"}


def test_data_that_is_named_by_a_url_and_rows_that_are_kept_stay_at_home(
    numbers: Path, code: Path, tmp_path: Path
) -> None:
    shutil.copytree(numbers, code / "inputs")
    for kept in ("kept [here]/0.arrow", "results/out/part-0.parquet"):
        (code / kept).parent.mkdir(exist_ok=True, parents=True)
        (code / kept).touch()
    job = job_of(numbers, code, numbers)
    named = job.spec.model_dump(mode="json", by_alias=True)
    named["source"]["path"] = f"file://{code}/inputs"
    named["sink"]["path"] = f"file://{code}/results/out"
    named["stages"]["preprocess"] = {"materialize": True, "path": str(code / "kept [here]")}
    job = replace(job, spec=parse_spec(named))
    sent = runtime_env(job, "gcs://ours.zip")
    assert packed(sent["working_dir"], sent["excludes"], tmp_path / "a.zip") == CODE_FILES


def test_where_the_folder_is_all_input_all_is_sent(numbers: Path, tmp_path: Path) -> None:
    """Nobody can say which of its files are code."""
    for file in CODE.glob("*.py"):
        shutil.copy(file, numbers)
    sent = runtime_env(job_of(numbers, numbers, numbers), "gcs://ours.zip")
    assert "speaking.py" in packed(sent["working_dir"], sent["excludes"], tmp_path / "a.zip")


def test_a_relative_folder_keeps_its_data_too(
    numbers: Path, code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(numbers, code / "inputs")
    monkeypatch.chdir(code)
    monkeypatch.syspath_prepend(str(code))
    job = job_of(numbers, Path("."), code / "inputs")
    sent = runtime_env(job, "gcs://ours.zip")
    assert "inputs/0.parquet" not in packed(code, sent["excludes"], tmp_path / "a.zip")


def test_our_own_code_is_small(tmp_path: Path) -> None:
    target = tmp_path / "ours.zip"
    files = packed(OUR_CODE, NOT_SHIPPED, target)
    assert {name for name in files if not name.endswith(".py")} == set()
    assert {"ray_job/__main__.py", "protocol/records.py", "kinds/kind.py"} <= files
    assert target.stat().st_size < 3 << 20


def test_without_code_of_their_own_no_folder_is_sent(numbers: Path, code: Path) -> None:
    job = job_of(numbers, code, numbers, env_vars={"A": "b"}, pip=["numpy"])  # which is here
    bought = HuggingFaceModel(task="text-classification", name_or_path="elsewhere/model")
    job = replace(job, spec=job.spec.model_copy(update={"model": bought}))
    sent = runtime_env(job, "gcs://ours.zip")
    assert "working_dir" not in sent
    assert sent["env_vars"]["A"] == "b"
    assert sent["pip"] == ["numpy"]
    assert sent["worker_process_setup_hook"] == "tasks.ray_job.raylet.end_with_raylet"


WHEEL = {
    "tiny_wheel.py": "FACTOR = 2\n",
    "tiny_wheel-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-wheel\nVersion: 1.0\n",
    "tiny_wheel-1.0.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "tiny_wheel-1.0.dist-info/RECORD": "",
}
TINY = """
import tiny_wheel

class Tiny:
    def __call__(self, batch):
        n = len(batch["x"])
        return {"doubled": batch["x"] * tiny_wheel.FACTOR, "wheel": [tiny_wheel.__file__] * n}
"""


def wheel(folder: Path) -> Path:
    """A wheel of one module, made by hand."""
    file = folder / "tiny_wheel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as package:
        for name, text in WHEEL.items():
            package.writestr(name, text)
    return file


def interpreter(folder: Path) -> Path:
    """One that has all that is installed here, and is none of a virtual environment."""
    file = folder / "bin/python3"
    file.parent.mkdir()
    bare = Path(sys.base_prefix, "bin/python3")
    packages = sysconfig.get_path("purelib")
    script = f'#!/bin/bash\nPYTHONPATH="$PYTHONPATH:{packages}" exec -a "$0" {bare} "$@"\n'
    file.write_text(script)
    file.chmod(0o755)
    return file


@pytest.mark.cluster
@pytest.mark.ray
@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_requirements_are_installed_on_the_cluster(numbers: Path) -> None:
    """Of a file on shared storage, so that no index is asked.

    The cluster's interpreter is none of a virtual environment: one of those Ray would copy whole.
    """
    code = numbers.parent / "code"
    code.mkdir()
    (code / "tiny.py").write_text(TINY)
    with (
        tempfile.TemporaryDirectory(prefix="rj", ignore_cleanup_errors=True) as folder,
        ray_cluster(Path(folder), nodes=0, python=str(interpreter(numbers.parent))) as found,
    ):
        spec = jobs_spec(
            numbers,
            {"kind": "ray_jobs", "address": found.dashboard},
            environment={"working_dir": str(code), "pip": [str(wheel(numbers.parent))]},
            model={"kind": "python", "class": "tiny:Tiny"},
            resources={"num_cpus": 0.5, "max_replicas": 1},
        )
        batch_inference(spec)
    rows = published(spec)
    assert [row["doubled"] for row in rows] == [2.0 * each for each in range(1000)]
    (where,) = {row["wheel"] for row in rows}
    assert "/runtime_resources/pip/" in where
    assert "tiny_wheel" not in sys.modules
