"""What inline cannot honour is refused before anything starts, and asked for nowhere else."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.own_process import is_met, lacking_inline
from tasks.planning.preflight import check_cluster
from tasks.previewing import refuse_unlike, trial_of
from tests.flows.conftest import spec_of

INLINE, LOCAL = {"kind": "inline"}, {"kind": "local"}
ELSEWHERE = {"kind": "ray_jobs", "address": "http://127.0.0.1:9"}
VLLM = {"kind": "vllm", "task": "generate", "name_or_path": "any/model"}
LACKING: dict[str, tuple[dict[str, Any], str]] = {
    "GPUs": ({"resources": {"num_gpus": 1}}, r"resources\.num_gpus: 1\.0 "),
    "a model that needs one": ({"model": VLLM}, r"resources\.num_gpus: 1\.0 "),
    "a kind of GPU": (
        {"resources": {"accelerator_type": "A100"}},
        r"resources\.accelerator_type: 'A100' ",
    ),
    "memory": ({"resources": {"memory_gb": 1e6}}, r"resources\.memory_gb: 1000000\.0 "),
    "replicas": ({"resources": {"min_replicas": 2}}, r"resources\.min_replicas: 2 "),
    "a variable": ({"environment": {"env_vars": {"A": "b"}}}, r"environment\.env_vars: \['A'\] "),
    "two things": (
        {"resources": {"num_gpus": 2}, "environment": {"env_vars": {"A": "b"}}},
        r"resources\.num_gpus: 2\.0, environment\.env_vars: \['A'\] ",
    ),
}
MET: dict[str, dict[str, Any]] = {
    "no GPU": {"resources": {"num_gpus": 0}},
    "a GPU where there is one": {"resources": {"num_gpus": "auto"}},
    "some memory": {"resources": {"memory_gb": 0.01}},
    "replicas at most": {"resources": {"max_replicas": 16}},
    "a variable that is set": {"environment": {"env_vars": {"PATH": os.environ["PATH"]}}},
    "a package that is there": {"environment": {"pip": [f"numpy=={version('numpy')}"]}},
}


@pytest.mark.parametrize(("asked", "message"), LACKING.values(), ids=LACKING.keys())
def test_what_this_process_lacks_is_named_with_the_way_out(
    asked: dict[str, Any], message: str, tmp_path: Path
) -> None:
    way_out = r"is not possible in this process.* set cluster: \{kind: local\}"
    with pytest.raises(InvalidSpec, match=message + way_out):
        check_cluster(spec_of(tmp_path, cluster=INLINE, **asked))


@pytest.mark.parametrize("asked", MET.values(), ids=MET.keys())
def test_what_makes_no_difference_is_no_reason(asked: dict[str, Any], tmp_path: Path) -> None:
    assert check_cluster(spec_of(tmp_path, cluster=INLINE, **asked)) == "this process"


@pytest.mark.parametrize("cluster", [INLINE, LOCAL])
def test_packages_are_not_installed_on_this_machine(
    cluster: dict[str, Any], tmp_path: Path
) -> None:
    spec = spec_of(tmp_path, cluster=cluster, environment={"pip": ["numpy", "numpy<1", "no-such"]})
    message = r"environment\.pip: \['numpy<1', 'no-such'\] .*: pip install them here, or set"
    with pytest.raises(InvalidSpec, match=message):
        check_cluster(spec)


def test_a_requirement_is_met_only_where_that_is_certain() -> None:
    assert is_met("pytest; python_version > '3'")
    assert is_met("no-such-package; python_version < '3'")
    assert not is_met("numpy @ https://example.com/numpy.whl")
    assert not is_met("-r requirements.txt")


def test_an_extra_is_met_where_what_it_needs_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = [
        "no-such-package",
        "numpy; extra == 'here'",
        "no-such-package; extra == 'lacking'",
        "no-such-package; extra == 'here' and python_version < '3'",
    ]
    monkeypatch.setattr("tasks.own_process.requires", {"pytest": needs, "numpy": None}.get)
    assert is_met("pytest[here]")
    assert not is_met("pytest[here,lacking]")


def test_previews_ask_for_no_amounts_and_for_all_else(tmp_path: Path) -> None:
    many = spec_of(tmp_path, cluster=ELSEWHERE, resources={"min_replicas": 8, "memory_gb": 1e6})
    refuse_unlike(many)
    assert lacking_inline(trial_of(many, 10, "p")) == {}
    packages = spec_of(tmp_path, cluster=ELSEWHERE, environment={"pip": ["no-such"]})
    with pytest.raises(InvalidSpec, match=r"environment\.pip: \['no-such'\] .* --cluster"):
        refuse_unlike(packages)
