"""Deletes the RayClusters of runs that nobody has followed until their time was up.

KubeRay gives a RayCluster no time to live; a run's process renews an annotation instead, and this
looks at it every few minutes, as a CronJob in the clusters' namespace. It needs nothing but
Python and its pod's service account.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LABEL = "app.kubernetes.io/managed-by=prefect-ray-data"
EXPIRES = "prefect-ray-data/expires"
SECONDS = 30.0


def main() -> int:
    """Delete what has expired in the pod's own namespace; return the exit code."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    namespace = (ACCOUNT / "namespace").read_text().strip()
    url = f"https://{host}:{port}/apis/ray.io/v1/namespaces/{namespace}/rayclusters"
    authorities = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    return reap(url, (ACCOUNT / "token").read_text().strip(), authorities)


def reap(url: str, token: str, authorities: ssl.SSLContext | None = None) -> int:
    """Delete what has expired; return 1 where something could not be.

    Args:
        url: of the namespace's RayClusters.
        token: who asks.
        authorities: to check the server's certificate against.
    """

    def ask(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[Any, datetime]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS, context=authorities) as answer:
            return json.load(answer), time_said(answer.headers["Date"])

    problems = 0
    found, now = ask("GET", f"?labelSelector={LABEL}")
    for cluster in found["items"]:
        meta = cluster["metadata"]
        if not has_expired(meta, now):
            continue
        # Renewed since it was listed, it has another version, and is not deleted.
        still = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        try:
            ask(
                "DELETE",
                f"/{meta['name']}",
                {"propagationPolicy": "Foreground", "preconditions": still},
            )
            print(f"{meta['name']} had expired and is being deleted")
        except urllib.error.HTTPError as error:
            if error.code not in (404, 409):
                print(f"{meta['name']} could not be deleted: {error}", file=sys.stderr)
                problems = 1
    return problems


def time_said(date: str | None) -> datetime:
    """The time by Kubernetes' clock, as it says with each answer; else by this machine's.

    Whoever renews a cluster goes by it too: by two machines' clocks one in use might have expired.
    """
    return parsedate_to_datetime(date) if date else datetime.now(UTC)


def has_expired(meta: dict[str, Any], now: datetime) -> bool:
    """Whether a cluster's time is up; one that does not say so is kept, and named."""
    if "deletionTimestamp" in meta:
        return False
    given = (meta.get("annotations") or {}).get(EXPIRES, "")
    try:
        return datetime.fromisoformat(given) < now
    except (TypeError, ValueError):
        print(f"{meta['name']} is kept: its {EXPIRES} is {given!r}", file=sys.stderr)
        return False


if __name__ == "__main__":
    sys.exit(main())
