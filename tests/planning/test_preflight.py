"""What is looked at before anything is started."""

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models.xgboost import XGBoostModel
from tasks.planning.preflight import check_cluster, check_code
from tests.flows.conftest import spec_of


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
