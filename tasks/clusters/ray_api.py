"""One Ray cluster's dashboard and Jobs API over HTTP, with timeouts and errors of ours."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tasks.clusters.ray_api_errors import (
    AlreadyThereError,
    NotFoundError,
    TooLargeError,
    answered,
    no_dashboard,
)
from tasks.errors import InvalidSpec, Unreachable
from tasks.reporting.redaction import hide_credentials

SECONDS = (5.0, 60.0)
"""To connect, and between two bytes of an answer."""
T = TypeVar("T")


@dataclass(frozen=True)
class RayApi:
    """A client of one cluster; makes no request before it is asked to."""

    address: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    verify: bool | str = True
    """Whether to check the server's certificate, or the authorities' file to check it against."""
    certificate: str | None = None
    """File of our own certificate, for a server that asks for one."""
    key: str | None = None
    """File of its key; None: in the certificate's."""

    @property
    def shown(self) -> str:
        """Its address for all to read: without the password that may be in it."""
        return str(hide_credentials(self.address))

    @cached_property
    def client(self) -> Any:
        """Ray's own client, which also packs and uploads code.

        Raises:
            InvalidSpec: a file of certificates cannot be used, or a header cannot be sent.
            Unreachable: the cluster does not answer, or does not let us in.
        """
        from packaging.version import InvalidVersion
        from ray.dashboard.modules.dashboard_sdk import SubmissionClient
        from ray.job_submission import JobSubmissionClient

        for chatty in ("ray.dashboard.modules.dashboard_sdk", "ray._private.runtime_env.packaging"):
            logging.getLogger(chatty).setLevel(logging.WARNING)

        self.check_headers()
        # Waits for no answer for ever, as Ray's does where a network swallows packets.
        ours: dict[str, Any] = {"timeout": SECONDS, "cert": self.own_certificate()}
        if any(name.lower() == "authorization" for name in self.headers):
            ours["auth"] = as_it_is  # else a ~/.netrc would take the token's place

        nothing_of_rays = no_dashboard(self.shown)

        class Client(JobSubmissionClient):
            def __init__(self, address: str, **options: Any) -> None:
                # Its own would go, token and all, to whatever RAY_ADDRESS names instead.
                SubmissionClient.__init__(self, address, **options)
                try:
                    self._check_connection_and_version()
                except (LookupError, TypeError, InvalidVersion):  # in what is JSON, but not Ray's
                    raise nothing_of_rays from None

            def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
                return super()._do_request(method, endpoint, **ours, **options)

        try:
            return self.asked(
                lambda: Client(self.address, headers=dict(self.headers), verify=self.verify)
            )
        except OSError as error:
            problem = f"cannot be used to check the cluster's certificate: {error}"
            raise InvalidSpec.at("cluster.block.ca_file", self.verify, problem) from None

    def check_headers(self) -> None:
        """See that the headers can be sent; those who send them would show what is in them.

        Raises:
            InvalidSpec: one cannot.
        """
        from requests.utils import check_header_validity

        for name, value in self.headers.items():
            try:
                check_header_validity((name, value))
                value.encode("latin-1")
            except ValueError:
                problem = "is a header whose value (for Authorization, the token) cannot be sent: "
                problem += "it has a line break, or a character that headers cannot have"
                raise InvalidSpec.at("cluster.block", name, problem) from None

    def own_certificate(self) -> str | tuple[str, str] | None:
        """What to show to a server that asks who we are, as `requests` wants it.

        Raises:
            InvalidSpec: its file is not there.
        """
        files = {"client_certificate_file": self.certificate, "client_key_file": self.key}
        for name, file in files.items():
            if file is not None and not Path(file).is_file():
                raise InvalidSpec.at(f"cluster.block.{name}", file, "is no file")
        return (self.certificate, self.key) if self.certificate and self.key else self.certificate

    def version(self) -> dict[str, Any]:
        """Versions of the cluster: `ray_version`, `session_name`."""
        return self.get("/api/version")

    def nodes(self) -> list[dict[str, Any]]:
        """Nodes that are alive: `node_ip`, `resources_total`, ..."""

        def ask() -> list[dict[str, Any]]:
            found = self.get("/api/v0/nodes?limit=10000")["data"]["result"]["result"]
            return [node for node in found if node["state"] == "ALIVE"]

        return self.asked(ask)

    def status(self, submission_id: str) -> str | None:
        """A job's status in Ray's words; None where the cluster does not know it."""
        try:
            return str(self.asked(lambda: self.client.get_job_status(submission_id)).value)
        except NotFoundError:
            return None

    def log(self, submission_id: str) -> str:
        """All that a job has said, or what the cluster says of one that failed before it could."""
        said = str(self.asked(lambda: self.client.get_job_logs(submission_id)))
        return said or self.reason(submission_id)

    def reason(self, submission_id: str) -> str:
        """Why a job has failed, in the cluster's words; empty where it has not."""
        info = self.asked(lambda: self.client.get_job_info(submission_id))
        return str(info.message or "") if info.status.value == "FAILED" else ""

    def stop(self, submission_id: str) -> None:
        """Ask a job to stop; of one that is over or not known nothing is asked."""
        try:
            self.asked(lambda: self.client.stop_job(submission_id))
        except NotFoundError:
            return

    def upload(self, folder: str, excludes: list[str]) -> str:
        """Send a Python package to the cluster, unless it is there already; its URI for a job.

        Raises:
            InvalidSpec: what stands before the cluster takes none of its size.
            Unreachable: it could not be packed now.
        """
        send = self.client._upload_package_if_needed
        options = {"include_gitignore": False, "include_parent_dir": True, "excludes": excludes}
        try:
            return str(self.asked(lambda: send(folder, **options)))
        except TooLargeError:
            problem = (
                "does not accept this project's code, about 2 MiB: let the proxy in front of it "
                "accept bodies of 100 MiB, as Ray does"
            )
            raise InvalidSpec.at("cluster.address", self.shown, problem) from None
        except OSError as error:  # of this machine's disks, as one that is full
            raise Unreachable(f"{folder} could not be packed for the cluster: {error}") from error

    def submit(
        self,
        submission_id: str,
        entrypoint: str,
        runtime_env: dict[str, Any],
        metadata: dict[str, str] | None = None,
    ) -> None:
        """Submit a job; that it is there already is no error.

        Raises:
            InvalidSpec: its code cannot be packed, or is more than the cluster takes.
            Unreachable: its code could not be packed now.
        """
        folder = runtime_env.get("working_dir", "")
        try:
            self.asked(
                lambda: self.client.submit_job(
                    submission_id=submission_id,
                    entrypoint=entrypoint,
                    runtime_env=runtime_env,
                    metadata=metadata,
                )
            )
        except AlreadyThereError:
            return
        except TooLargeError:
            problem = (
                f"is larger than {self.shown} accepts: Ray accepts 100 MiB packed, a proxy in "
                "front of it perhaps less. Exclude what is not code with a .rayignore file in it "
                "(like a .gitignore), or use a folder with only code; put data and weights where "
                "all nodes can read them"
            )
            raise InvalidSpec.at("environment.working_dir", folder, problem) from None
        except (ValueError, PermissionError) as error:
            raise InvalidSpec.at(
                "environment.working_dir", folder, f"cannot be sent to the cluster: {error}"
            ) from error
        except OSError as error:  # of this machine's disks: full, or a file has gone meanwhile
            problem = f"environment.working_dir: {folder} could not be packed for the cluster"
            raise Unreachable(f"{problem}: {error}") from error

    def get(self, path: str) -> Any:
        """What the dashboard says at a path.

        Raises:
            Unreachable: it does not answer.
        """

        def ask() -> Any:
            response = self.client._do_request("GET", path)
            if response.status_code != 200:
                raise RuntimeError(f"{path}: status code {response.status_code}")
            return response.json()

        return self.asked(ask)

    def asked(self, ask: Callable[[], T]) -> T:
        """The answer to a request, errors as ours; none of them holds a header or a token.

        Raises:
            Unreachable: no answer, or not let in.
        """
        return answered(ask, self.shown)


def as_it_is(request: T) -> T:
    """A request that has with it what lets us in."""
    return request
