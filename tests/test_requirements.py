"""What pip can make nothing of is refused before a cluster is asked, five times, to install it."""

import pytest

from tasks.spec_parts import Environment
from tests.test_spec_mistakes import refused

GOOD = [
    "torch",
    "torch>=2.4",
    "torch ~= 2.4, != 2.5",
    "numpy==1.*",
    "torch==2.4.0+cu121",
    "scikit-learn[a, b] (>=1)",
    "x;python_version<'3.12'",
    "ours @ https://host/ours-1-py3-none-any.whl",
    "ours@file:///shared/ours.whl",
    "git+https://host/ours@main",
    "/shared/ours-1-py3-none-any.whl",
    "-r /shared/requirements.txt",
    "-r ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/requirements.txt",
    "--requirement=https://host/requirements.txt",
    "--index-url https://host/simple",
    "-i https://host/simple",
    "--no-deps",
    "--find-links /wheels",
    "a==1 --hash=sha256:0 \\\n --hash=sha256:1",
    "a==1  # as ./b wants it",
    "# a comment",
    "",
    "a\nb>1",
]


@pytest.mark.parametrize("entry", GOOD)
def test_what_pip_reads_is_taken(entry: str) -> None:
    assert Environment(pip=[entry]).pip == [entry]


@pytest.mark.parametrize(
    "entry",
    [
        *("-r requirements.txt", "-rrequirements.txt", "--requirement=req/base.txt", "-r"),
        *("-c constraints.txt", "-e .", "--find-links wheels", "./ours", "../ours[gpu]", "."),
        *("src/ours", "ours-1-py3-none-any.whl", "ours.tar.gz", "a\n-r more.txt"),
    ],
)
def test_a_file_beside_the_spec_is_on_no_node(entry: str) -> None:
    said = refused(environment={"pip": ["torch", entry]})
    assert said.startswith("environment.pip: ")
    assert "which no node of a cluster has: list the lines of a requirements file here" in said


@pytest.mark.parametrize(
    "entry", ["numpy=1.0", "torch 2.4", "pip install torch", "a, b", "==1", "é"]
)
def test_what_pip_cannot_read_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a requirement that pip can read: write name"):
        Environment(pip=[entry])
