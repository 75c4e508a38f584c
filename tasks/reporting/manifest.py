"""What happened, for machines: one JSON file a published run."""

import json
import platform
from functools import cache
from importlib import metadata
from typing import Any

from tasks.planning.sharding import num_inputs
from tasks.reporting.addresses import named_on
from tasks.reporting.evidence import Evidence
from tasks.reporting.redaction import shown_spec

PACKAGES = ("prefect-ray-data", "ray", "prefect", "torch", "transformers", "pyarrow")


def save_manifest(evidence: Evidence, report: dict[str, Any]) -> str:
    """Store the manifest; return where."""
    planned = evidence.planned
    pins = planned.plan.pins
    manifest = {
        **report,
        "name": planned.spec.name,
        "run_key": planned.run_key,
        "plan": planned.plan.digest,
        "inputs": num_inputs(planned.plan),
        "files": published_files(evidence),
        "quarantine": published_files(evidence, "quarantine"),
        "schema": schema_fields(evidence),
        "fingerprints": pins["fingerprints"],
        "versions": versions(),
        "spec": shown_spec(planned.spec),
    }
    path = planned.output.manifest(planned.run.run_id)
    planned.storage.write(path, json.dumps(manifest, indent=2, default=str).encode())
    return path


@cache
def versions() -> dict[str, str]:
    """Versions of what the run was made with; none of it is imported for this."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def published_files(evidence: Evidence, line: str = "file") -> list[dict[str, Any]]:
    """The run's published files; rows count children one by one."""
    storage, output = evidence.planned.storage, evidence.planned.output
    return [
        {"path": named_on(storage, file.target(output)), "rows": file.rows, "bytes": file.size}
        for file in evidence.published(line)
    ]


def schema_fields(evidence: Evidence) -> dict[str, str]:
    """Columns and their Arrow types."""
    schema = evidence.schema
    return {field.name: str(field.type) for field in schema} if schema else {}
