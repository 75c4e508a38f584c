"""The Prefect block `RayCluster`: how to reach a cluster, secrets included."""

from typing import Any

import httpx
from prefect.blocks.core import Block
from pydantic import Field, SecretStr, ValidationError, field_validator

from tasks.clusters.ray_api import RayApi
from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.clusters import dashboard_url
from tasks.kinds.form import none_where_cleared


class RayCluster(Block):
    """A Ray cluster's Jobs API: where it is, and what is needed to use it."""

    _block_type_name = "RayCluster"
    _block_type_slug = "ray-cluster"
    _description = "Address, token, headers and TLS of a Ray cluster's Jobs API."

    address: str = Field(
        pattern=r"^https?://[^/\s]+",
        description="The dashboard's URL, as in https://ray.example.com:8265.",
    )
    token: SecretStr | None = Field(
        default=None, description="Token for a cluster that runs with RAY_AUTH_MODE=token."
    )
    headers: dict[str, SecretStr] = Field(
        default={},
        description="Headers sent with every request, such as those that a proxy asks for.",
    )
    verify: bool = Field(default=True, description="Check the server's certificate.")
    ca_file: str | None = Field(
        default=None, description="File of the certificate authorities to check it against."
    )
    client_certificate_file: str | None = Field(
        default=None,
        description="File of the client certificate, for a server that asks for one; with its key "
        "unless client_key_file is set.",
    )
    client_key_file: str | None = Field(
        default=None, description="File of the client certificate's key."
    )

    max_gpus: float | None = Field(
        default=None,
        gt=0,
        description="GPUs that all jobs on this cluster may hold together; later jobs wait for "
        "their turn.",
    )

    _cleared = field_validator(
        "token", "ca_file", "client_certificate_file", "client_key_file", mode="before"
    )(none_where_cleared)
    _reaches_a_host = field_validator("address")(dashboard_url)

    def api(self) -> RayApi:
        """A client of the cluster."""
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.get_secret_value()}"
        return RayApi(
            self.address.rstrip("/"),
            headers,
            verify=self.ca_file or self.verify,
            certificate=self.client_certificate_file,
            key=self.client_key_file,
        )


def load_ray_cluster(name: str) -> RayCluster:
    """The block of a name.

    Raises:
        InvalidSpec: there is none, or something in it is wrong.
        Unreachable: Prefect's server does not say.
    """
    load: Any = RayCluster.load  # Prefect's types know nothing of `_sync`
    try:
        # Within an async flow, as where a hook of ours is called, it would have to be awaited.
        found = load(name, _sync=True)
    except ValueError as error:
        raise InvalidSpec.at(
            "cluster.block",
            name,
            "is not a block of type RayCluster: create one in Prefect's UI, or in Python with "
            f"RayCluster(address=...).save({name!r})",
        ) from error
    except RuntimeError as error:
        if not isinstance(error.__cause__, ValidationError):
            raise
        # Whoever saves a block in Prefect's UI is not told.
        wrong = error.__cause__.errors(include_input=False, include_url=False)
        problem = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong)
        raise InvalidSpec.at("cluster.block", name, f"must be corrected: {problem}") from None
    except httpx.HTTPError as error:
        raise Unreachable(
            f"cluster.block: Prefect's server, which keeps {name!r}, does not answer or refuses "
            f"access ({type(error).__name__}): check that it runs, and that PREFECT_API_URL and "
            "PREFECT_API_AUTH_STRING are correct"
        ) from error
    assert isinstance(found, RayCluster)
    return found
