"""All clusters, written out: the union is the contract. What runs them is in `tasks.clusters`."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from tasks.kinds.form import FormModel, PickOne

Interpreter = Annotated[
    str, Field(min_length=1, description="The Python interpreter on the cluster, by name or path.")
]

RAYS_WORDS = ("auto", "local")
"""Addresses to Ray that name no host."""
HOST_AND_PORT = re.compile(r"(?:ray://)?\[?([^\[\]/\s]+)\]?:(\d{1,5})")


def dashboard_url(address: str | None) -> str | None:
    """A dashboard's URL as it is, where requests can go below it.

    Raises:
        ValueError: they cannot; says what to write.
    """
    if address is None:
        return address
    try:
        parts = urlsplit(address)
        has_host, _ = bool(parts.hostname), parts.port
    except ValueError:
        has_host = False
    if not has_host:
        raise ValueError("give host and port, such as https://ray.example.com:8265")
    if parts.query or parts.fragment:
        raise ValueError(
            "give the dashboard's URL without the part that a browser adds after ? or #"
        )
    return address


class InlineCluster(FormModel):
    """In the flow's own process, without Ray: for trials, small jobs, machines of few cores.

    One replica, on CPUs; a spec that asks for more is refused.
    """

    model_config = ConfigDict(title="This process")
    kind: Literal["inline"] = "inline"


class LocalCluster(FormModel):
    """Ray on this machine, started for the run."""

    model_config = ConfigDict(title="This machine")
    kind: Literal["local"] = "local"
    address: str | None = Field(
        None,
        description="Address of a running Ray to use instead, as in 127.0.0.1:6379. Empty: your "
        "own Ray on this machine that RAY_ADDRESS names, if it names one.",
    )
    object_store_gb: float | None = Field(
        None, gt=0, description="Size of Ray's object store in GiB. Empty: Ray's default."
    )

    @field_validator("address")
    @classmethod
    def _is_rays_own(cls, address: str | None) -> str | None:
        if address and address.startswith(("http://", "https://")):
            raise ValueError(
                "a dashboard's URL needs cluster.kind ray_jobs: set that, or give Ray's own host "
                "and port, such as 127.0.0.1:6379"
            )
        is_one = address is None or address in RAYS_WORDS or HOST_AND_PORT.fullmatch(address)
        if not is_one:
            raise ValueError("give host and port, such as 127.0.0.1:6379, or leave it out")
        return address


class RayJobsCluster(FormModel):
    """A Ray cluster that is already running; jobs are submitted through its Jobs API."""

    model_config = ConfigDict(title="A Ray cluster")
    kind: Literal["ray_jobs"] = "ray_jobs"
    address: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+",
        description="The dashboard's URL, as in https://ray.example.com:8265.",
    )
    block: str | None = Field(
        None,
        description="Instead of address: name of a Prefect block of type RayCluster, with address, "
        "token, headers and TLS. Secrets belong there, never in a spec.",
    )
    python: Interpreter = "python"
    wait_for_nodes_seconds: float = Field(
        0,
        ge=0,
        description="How long to wait for nodes that the autoscaler is to add. 0: what no present "
        "node can hold is refused at once.",
    )

    max_gpus: float | None = Field(
        None,
        gt=0,
        description="GPUs that all jobs on this cluster may hold together; later jobs wait for "
        "their turn. Empty: the block's. Give all specs of a cluster the same number.",
    )

    _reaches_a_host = field_validator("address")(dashboard_url)

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.address is None) == (self.block is None):
            raise ValueError("set either address or block")
        return self


class KubeRayCluster(FormModel):
    """A Ray cluster of its own for each run, made by KubeRay and deleted when the run ends."""

    model_config = ConfigDict(title="Kubernetes (KubeRay)")
    kind: Literal["kuberay"] = "kuberay"
    manifest: str | None = Field(
        None,
        description="YAML file of a RayCluster, the template for the run's. Empty: the project's "
        "own, deployments/cluster/raycluster.yaml.",
    )
    namespace: str = Field("default", min_length=1, description="Namespace to create it in.")
    image: str | None = Field(
        None, description="Image of all its nodes, instead of the manifest's."
    )
    context: str | None = Field(
        None,
        description="Context of the kubeconfig. Empty: the current one; inside Kubernetes, the "
        "pod's service account.",
    )
    address: str = Field(
        "http://{name}-head-svc.{namespace}.svc:8265",
        pattern=r"^https?://[^/\s]+",
        description="URL of the head's dashboard as reached from here; {name} and {namespace} "
        "stand for the cluster's.",
    )
    python: Interpreter = "python"
    ready_seconds: float = Field(
        900,
        gt=0,
        description="How long the head may take to be ready: its node, its image, its start.",
    )
    wait_for_nodes_seconds: float = Field(
        1800, ge=0, description="How long to wait for nodes that the autoscaler is to add."
    )
    ttl_seconds: float = Field(
        3600,
        ge=60,
        description="A cluster that no run has followed for this long is deleted by the reaper in "
        "deployments/cluster; must be more than timeouts.orphan_seconds.",
    )

    @field_validator("address")
    @classmethod
    def _known_placeholders(cls, address: str) -> str:
        try:
            address.format(name="name", namespace="namespace")
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError("only {name} and {namespace} are filled in") from error
        return address


RemoteCluster = RayJobsCluster | KubeRayCluster
"""Clusters elsewhere: code is sent there, and their nodes are their own."""
AnyCluster = Annotated[
    InlineCluster | LocalCluster | RayJobsCluster | KubeRayCluster,
    Field(discriminator="kind"),
    PickOne(),
]
