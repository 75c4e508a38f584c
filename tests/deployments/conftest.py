"""The stand-in for Kubernetes."""

from tests.clusters.conftest import fields, kube

__all__ = ["fields", "kube"]
