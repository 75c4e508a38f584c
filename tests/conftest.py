"""What all tests share."""

import gc
import os
import subprocess
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.s3_server import S3, running_s3

if TYPE_CHECKING:
    from deployments.stack.stack import Stack
    from tests.azure_server import Azure
    from tests.flows.jobs_cluster import JobsCluster
    from tests.google_server import Google
    from tests.postgres import Postgres

# The Prefect server and the Ray that all tests share are those that users get.
pytest_plugins = ["flows.testing"]

# Ray's workers would else stand back behind all other tests of a busy machine, nearly for ever.
os.environ.setdefault("RAY_worker_niceness", "0")
# What asks Ray for something outside of it would else start one, in the process of the tests.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")

# The machines are noisy: a slow example is no bug.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Who gets which test, where processes share them."""
    from tests.sharing import ByCluster

    return ByCluster(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported for the tests is no garbage: Python does not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where processes share the tests, the long ones go first."""
    from tests.sharing import order_of

    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: order_of(item.nodeid))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Where processes share the tests, a cluster does not outlive those that use it."""
    from tests.sharing import end_cluster

    if hasattr(item.config, "workerinput") and isinstance(item, pytest.Function):
        end_cluster(item, nextitem)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where a command failed a test, what it said on stderr is part of the report."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, subprocess.CalledProcessError) and error.stderr:
        said = error.stderr
        text = said if isinstance(said, str) else said.decode(errors="replace")
        report.sections.append(("What the command said on stderr", text))
    return report


@pytest.fixture
def short_ray_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder for a Ray of a test's own; its sockets' names must be short."""
    with TemporaryDirectory(prefix="own-") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """Moto's S3 on a free port; its credentials are in the environment."""
    with running_s3() as started:
        yield started


@pytest.fixture(scope="session")
def azure() -> "Iterator[Azure]":
    """Azure's object store on loopback; where AZURE_TESTS is `required`, it must be there."""
    from tests.azure_server import NoAzuriteError, running_azure

    with ExitStack() as until_the_end:
        try:
            store = until_the_end.enter_context(running_azure())
        except NoAzuriteError as error:
            if os.environ.get("AZURE_TESTS") == "required":
                raise
            pytest.skip(str(error))
        yield store


@pytest.fixture(scope="session")
def google() -> "Iterator[Google]":
    """Google's object store, as far as it is asked for, on loopback."""
    from tests.google_server import running_google

    with running_google() as store:
        yield store


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    """A PostgreSQL server on loopback; where POSTGRES_TESTS is `required`, it must be there."""
    from tests.postgres import NoPostgresError, running_postgres

    with ExitStack() as until_the_end:
        try:
            server = until_the_end.enter_context(running_postgres())
        except NoPostgresError as error:
            if os.environ.get("POSTGRES_TESTS") == "required":
                raise
            pytest.skip(str(error))
        yield server


@pytest.fixture(scope="session")
def jobs_cluster(prefect_server: None) -> "Iterator[JobsCluster]":
    """A cluster elsewhere, as far as a machine can be elsewhere from itself, and its block."""
    from tests.flows.jobs_cluster import jobs_cluster

    with jobs_cluster() as started:
        started.save_block()
        yield started


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Stack]":
    """A stack as `make up` starts it, on free ports, whose server asks who one is."""
    from tests.whole_stack import guarded_stack

    yield from guarded_stack(tmp_path_factory.mktemp("stack"))


@pytest.fixture(scope="module")
def torchvision(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets one module's tests have torchvision, its operators declared by the tests.

    One that is installed stays as it is. Where TORCHVISION_TESTS is `required`, one must be there.
    """
    if find_spec("torchvision"):
        yield
        return
    from tests.torchvision_shim.loading import NoTorchvisionError, importable, unpacked

    assert request.config.cache
    try:
        folder = unpacked(request.config.cache.mkdir("torchvision"))
    except NoTorchvisionError as error:
        if os.environ.get("TORCHVISION_TESTS") == "required":
            raise
        pytest.skip(str(error))
    with importable(folder):
        yield
