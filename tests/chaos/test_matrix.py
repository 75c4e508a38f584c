"""A cell of the matrix; `python -m tests.chaos.matrix` runs all of them."""

import os
from urllib.parse import urlsplit

import pytest

from tests.chaos.matrix.cell import Stand, run_cell
from tests.chaos.matrix.clusters import Clusters
from tests.chaos.matrix.job import whole_output
from tests.chaos.session import Session
from tests.flows.jobs_cluster import JobsCluster

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect, pytest.mark.chaos]


@pytest.fixture(scope="module")
def shared(jobs_cluster: JobsCluster, tmp_path_factory: pytest.TempPathFactory) -> Stand:
    """The server and the cluster of all tests: whoever breaks the cluster must have its own."""
    from prefect.settings import PREFECT_API_URL

    folder = tmp_path_factory.mktemp("matrix")
    environment = {
        **os.environ,
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": str(PREFECT_API_URL.value()),
        "PREFECT_LOGGING_LEVEL": "ERROR",
    }
    port = urlsplit(jobs_cluster.ray.dashboard).port
    assert port
    clusters = Clusters(folder, environment, port=port, running=jobs_cluster.ray)
    return Stand(Session(folder, environment), clusters, whole_output(), seconds=6.0)


@pytest.mark.parametrize("fault", ["flow"])
def test_a_fault_while_the_model_is_at_work(shared: Stand, fault: str) -> None:
    result = run_cell(shared, fault, "infer", 1)
    print(result.line())
    assert result.is_good, result
