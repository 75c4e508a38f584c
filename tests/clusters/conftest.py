"""A stand-in for Kubernetes, and spec and job of a run on it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.clusters import kuberay
from tests.clusters.kubernetes_api import NAMESPACE, Kubernetes, kubernetes


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubernetes]:
    """The stand-in; the environment leads there."""
    with kubernetes(tmp_path) as (held, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(kuberay, "RELEASE_EVERY_SECONDS", 0.05)
        monkeypatch.setattr(kuberay, "LOOK_EVERY_SECONDS", 0.1)
        yield held


@pytest.fixture
def fields() -> dict[str, Any]:
    """Fields of `cluster` that lead to the stand-in; nothing answers as the head."""
    return {"kind": "kuberay", "namespace": NAMESPACE, "address": "http://127.0.0.1:9"}
