"""What is looked at before anything is started."""

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models.xgboost import XGBoostModel
from tasks.planning.preflight import check_cluster, check_code, check_model
from tests.flows.conftest import spec_of
from tests.kinds.vllm_stand_in import vllm_stand_in


def test_a_spec_of_another_machine_needs_no_folder_where_no_code_is_the_users(
    tmp_path: Path,
) -> None:
    """A deployment has the folder of whoever made it."""
    spec = spec_of(tmp_path, environment={"working_dir": "/home/who/deployed/it"})
    with pytest.raises(
        InvalidSpec, match=r"^environment\.working_dir: .* for a deployment to where"
    ):
        check_code(spec)
    model = XGBoostModel(path="model.json", columns=["x"])
    assert check_code(spec.model_copy(update={"model": model})) == "none"


def test_ray_begins_in_no_folder_that_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for its name: each of five attempts failed, by `No such file or directory`."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    with pytest.raises(
        InvalidSpec, match="Ray starts where you are, but the current folder was deleted"
    ):
        check_cluster(spec_of(tmp_path, cluster={"kind": "local"}))
    check_cluster(spec_of(tmp_path))  # inline


def test_a_driver_wants_a_folder_for_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container whose disk is read-only Python finds none; that was a traceback."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    with pytest.raises(
        InvalidSpec, match=r"TMPDIR: there is no folder for temporary files .*'/proc'.*: set TMPDIR"
    ):
        check_cluster(spec_of(tmp_path, cluster={"kind": "local"}))
    check_cluster(spec_of(tmp_path))  # inline


@pytest.mark.parametrize("variable", ["TMPDIR", "RAY_TMPDIR"])
def test_a_ray_of_its_own_wants_room_for_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Else it waits half a minute for one that it cannot write, in each of five attempts."""
    usage, full = shutil.disk_usage, tmp_path / "full"
    full.mkdir()
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv(variable, str(full))
    monkeypatch.setattr(
        shutil,
        "disk_usage",
        lambda folder: SimpleNamespace(free=5 << 20) if folder == str(full) else usage(folder),
    )
    spec = spec_of(tmp_path, cluster={"kind": "local"})
    with pytest.raises(InvalidSpec, match=rf"^{variable}: .*full' has 5 MiB left, .* RAY_TMPDIR"):
        check_cluster(spec)
    with monkeypatch.context() as read_only:
        read_only.setattr(os, "access", lambda folder, _: folder != str(full))
        with pytest.raises(InvalidSpec, match=rf"^{variable}: .*full' is not writable, .* RAY_"):
            check_cluster(spec)
    elsewhere = {"env_vars": {"RAY_TMPDIR": str(tmp_path)}}
    assert check_cluster(spec_of(tmp_path, cluster={"kind": "local"}, environment=elsewhere))
    check_cluster(spec_of(tmp_path))  # inline
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "not there yet"))
    assert check_cluster(spec)


@pytest.mark.parametrize(
    ("arguments", "num_gpus", "wanted"),
    [
        ({"tensor_parallel_size": 4}, 2, 4),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 3}, 2, 6),
        ({"tensor_parallel_size": 2}, "auto", 2),
        ({"tensor_parallel_size": 2}, 2, None),
        ({"tensor_parallel_size": 2}, 0, None),  # a vLLM that is built for CPUs
        ({"tensor_parallel_size": 1}, 0.5, None),
        ({}, "auto", None),
    ],
)
def test_an_engine_of_several_gpus_is_given_them(
    arguments: dict[str, int], num_gpus: float | str, wanted: int | None, tmp_path: Path
) -> None:
    """It said so once the cluster had started, and held the GPUs."""
    model = {"kind": "vllm", "name_or_path": "some/model", "engine_kwargs": arguments}
    spec = spec_of(tmp_path, model=model, resources={"num_gpus": num_gpus})
    with vllm_stand_in():
        if wanted is None:
            check_model(spec)
            return
        problem = (
            rf"^resources.num_gpus: .* fewer GPUs than .*engine_kwargs uses: set it to {wanted}$"
        )
        with pytest.raises(InvalidSpec, match=problem):
            check_model(spec)
