"""A Jobs API behind TLS: who it is, and who we are, is checked with what the block names."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tasks.clusters.choose import api_of
from tasks.clusters.ray_api import RayApi
from tasks.clusters.ray_jobs import OUR_CODE
from tasks.clusters.shipped import NOT_SHIPPED
from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.clusters import RayJobsCluster
from tests.flows.jobs_cluster import JobsCluster, await_that
from tests.flows.jobs_front import jobs_front

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect]


@dataclass(frozen=True)
class Secured:
    """A cluster that is reached through TLS alone, and the files that may help."""

    cluster: JobsCluster
    url: str
    ca_file: str
    client_file: str

    def api(self, **fields: object) -> RayApi:
        """A client as the block's fields make it."""
        name = self.cluster.save_block("secured", self.url, **fields)
        return api_of(RayJobsCluster(block=name))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secured(
    jobs_cluster: JobsCluster,
    authority: trustme.CA,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Secured]:
    """The parameter says whether the server asks for a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    if request.param:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        # In 1.3 whoever is refused may find the connection closed before it has read why.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    ca_file, client_file = tmp_path / "ca.pem", tmp_path / "client.pem"
    authority.cert_pem.write_to_path(ca_file)
    authority.issue_cert("us@example.com").private_key_and_cert_chain_pem.write_to_path(client_file)
    with jobs_front(jobs_cluster.ray.dashboard, tls=context) as front:
        yield Secured(jobs_cluster, front.url, str(ca_file), str(client_file))


def run_a_job(api: RayApi, name: str) -> None:
    """Every kind of request there is: ask, send code, submit, look, read."""
    assert api.version()["ray_version"]
    code = api.upload(str(OUR_CODE), NOT_SHIPPED)
    api.submit(name, "echo it runs", {"py_modules": [code]})
    await_that(lambda: api.status(name) == "SUCCEEDED", f"the job is {api.status(name)}")
    assert "it runs" in api.log(name)


@pytest.mark.parametrize("secured", [False], indirect=True)
def test_a_certificate_is_checked_with_the_blocks_authority(secured: Secured) -> None:
    run_a_job(secured.api(ca_file=secured.ca_file), "behind-tls")
    with pytest.raises(Unreachable) as caught:
        secured.api().version()
    message = str(caught.value)
    assert message.startswith(
        f"cluster.address: {secured.url} and this client do not trust each other"
    )
    assert "unable to get local issuer certificate" in message
    assert "give ca_file" in message
    assert "\n" not in message


@pytest.mark.parametrize("secured", [True], indirect=True)
def test_a_server_that_asks_who_we_are_gets_the_blocks_certificate(secured: Secured) -> None:
    ours = {"ca_file": secured.ca_file, "client_certificate_file": secured.client_file}
    assert secured.api(**ours).version()["ray_version"]
    assert secured.api(**ours, client_key_file=secured.client_file).version()["ray_version"]
    with pytest.raises(Unreachable, match=r"do not trust each other .*client_certificate_file"):
        secured.api(ca_file=secured.ca_file).version()


@pytest.mark.parametrize("field", ["ca_file", "client_certificate_file", "client_key_file"])
@pytest.mark.parametrize("secured", [False], indirect=True)
def test_a_file_that_is_not_there_is_named(secured: Secured, field: str) -> None:
    with pytest.raises(InvalidSpec, match=rf"^cluster\.block\.{field}: '/no/such/file' "):
        secured.api(**{field: "/no/such/file"}).version()
