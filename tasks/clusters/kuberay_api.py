"""The few requests to Kubernetes that runs need, with timeouts and errors of ours."""

import base64
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, TypeVar

from tasks.clusters.kuberay_manifest import GROUP, PLURAL, VERSION, Manifest
from tasks.errors import InvalidSpec, Unreachable

SECONDS = (5.0, 20.0)
"""To connect, and for an answer."""
T = TypeVar("T")


@dataclass(frozen=True)
class KubeApi:
    """A client of one namespace; makes no request before it is asked to."""

    namespace: str
    context: str | None = None

    @cached_property
    def client(self) -> Any:
        """The official client, set up by the kubeconfig, or by the pod that this runs in.

        Raises:
            InvalidSpec: neither is there.
        """
        from kubernetes import client, config

        settings = client.Configuration()
        try:
            if self.context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
                config.load_incluster_config(client_configuration=settings)
            else:
                config.load_kube_config(
                    # The client looks at the environment only when it is imported.
                    config_file=os.environ.get("KUBECONFIG"),
                    context=self.context,
                    client_configuration=settings,
                )
        except config.ConfigException as error:
            if self.context is None:
                raise InvalidSpec(
                    f"cluster.context: none is set, and no default was found: {error}; check "
                    "KUBECONFIG"
                ) from None
            raise InvalidSpec.at(
                "cluster.context", self.context, f"does not work: {error}"
            ) from None
        # We have our own ways of trying again.
        settings.retries = False
        return client.ApiClient(settings)

    @cached_property
    def where(self) -> dict[str, Any]:
        """What every request for RayClusters is called with."""
        common = {"group": GROUP, "version": VERSION, "plural": PLURAL}
        return {**common, "namespace": self.namespace, "_request_timeout": SECONDS}

    @cached_property
    def objects(self) -> Any:
        """The API of custom resources."""
        from kubernetes.client import CustomObjectsApi

        return CustomObjectsApi(self.client)

    def find(self, name: str) -> Manifest | None:
        """A RayCluster, or None."""
        found = self.find_and_time(name)
        return found and found[0]

    def find_and_time(self, name: str) -> tuple[Manifest, datetime] | None:
        """A RayCluster, and what time it is by Kubernetes' own clock; None where there is none.

        Servers say the time with each answer; where a proxy has taken that away, it is ours.
        """
        ask = self.objects.get_namespaced_custom_object_with_http_info
        try:
            found, _, headers = self.asked(lambda: ask(name=name, **self.where))
        except MissingError:
            return None
        said = headers.get("Date")
        return found, parsedate_to_datetime(said) if said else datetime.now(UTC)

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> None:
        """Make a RayCluster; that it is there already is no error.

        Args:
            manifest: what to make.
            dry_run: only see whether we may, and whether Kubernetes takes it.

        Raises:
            InvalidSpec: the manifest is refused, or nobody knows RayClusters here.
        """
        options = {"dry_run": "All"} if dry_run else {}
        try:
            self.asked(
                lambda: self.objects.create_namespaced_custom_object(
                    body=manifest, field_validation="Strict", **options, **self.where
                )
            )
        except ConflictError:
            return
        except MissingError as error:
            raise InvalidSpec.at(
                "cluster.namespace",
                self.namespace,
                f"has no RayClusters: check that it exists and KubeRay is installed ({error})",
            ) from None

    def annotate(self, name: str, annotations: dict[str, str]) -> None:
        """Set annotations of a RayCluster; nothing where there is none."""
        body = {"metadata": {"annotations": annotations}}
        try:
            self.asked(
                lambda: self.objects.patch_namespaced_custom_object(
                    name=name, body=body, **self.where
                )
            )
        except (MissingError, ConflictError):
            return  # it is gone, or others write at the same moment: it is renewed again soon

    def delete(self, found: Manifest) -> None:
        """Delete this very RayCluster; it is gone when all of its pods are."""
        from kubernetes.client import V1DeleteOptions, V1Preconditions

        meta = found["metadata"]
        # Its name is there until its pods are not: a new one never mixes with the old one's.
        options = V1DeleteOptions(
            propagation_policy="Foreground", preconditions=V1Preconditions(uid=meta["uid"])
        )
        try:
            self.asked(
                lambda: self.objects.delete_namespaced_custom_object(
                    name=meta["name"], body=options, **self.where
                )
            )
        except (MissingError, ConflictError):
            return

    def token(self, secret: str) -> str:
        """The token in a Secret.

        Raises:
            Unreachable: there is none yet.
        """
        from kubernetes.client import CoreV1Api

        try:
            found = self.asked(
                lambda: CoreV1Api(self.client).read_namespaced_secret(
                    name=secret, namespace=self.namespace, _request_timeout=SECONDS
                )
            )
            return base64.b64decode(found.data["auth_token"]).decode()
        except (MissingError, KeyError, TypeError):
            raise Unreachable(f"secret {secret} with the cluster's token does not exist") from None

    def asked(self, ask: Callable[[], T]) -> T:
        """The answer to a request, errors as ours; none of them holds a header or a token.

        Raises:
            InvalidSpec: what was sent is refused.
            Unreachable: no answer, or not let in.
        """
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return ask()
        except ApiException as error:
            raise translated(error.status, error.body or error.reason or "") from None
        except (HTTPError, OSError) as error:
            raise Unreachable(
                f"cluster.context: Kubernetes does not answer ({type(error).__name__}): check "
                "`kubectl cluster-info`"
            ) from None


class MissingError(Exception):
    """There is no such thing."""


class ConflictError(Exception):
    """It is there already, or it is another one."""


def translated(status: int, body: str) -> Exception:
    """An answer that is none, as an exception."""
    said = message_of(body)[:500]
    match status:
        case 404:
            return MissingError(said)
        case 409:
            return ConflictError(said)
        case 400 | 422:
            return InvalidSpec(f"cluster.manifest: Kubernetes refuses it: {said}")
        case 401 | 403:
            return Unreachable(
                f"cluster.context: Kubernetes does not allow it: {said}; the rights needed are in "
                "deployments/cluster/rbac.yaml"
            )
    return Unreachable(f"cluster.context: Kubernetes answers with {status}: {said}")


def message_of(body: str) -> str:
    """What Kubernetes says in an answer's body, which is JSON unless a proxy speaks."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return " ".join(body.split())
