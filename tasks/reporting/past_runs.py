"""The last runs that published an output: the ledger's word, and their manifests' figures."""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from tasks.protocol.ledger import Snapshot
from tasks.reporting.evidence import Evidence

logger = logging.getLogger(__name__)

SHOWN_RUNS = 20
READERS = 8
"""Manifests read at the same time."""


class Figures(BaseModel):
    """What a manifest says of a run that can be compared with another's."""

    accuracy: FiniteFloat | None = Field(None, ge=0, le=1)
    rows_per_second: FiniteFloat | None = Field(None, ge=0)
    cost: FiniteFloat | None = Field(None, ge=0)


@dataclass(frozen=True)
class PastRun:
    """A run that is published."""

    version: int
    published_at: float | None
    """Seconds since the epoch."""
    rows: int | None
    """Rows written."""
    figures: Figures
    is_redrive: bool = False
    """Whether it ran only rows again that others had set aside."""
    replaces: bool = False
    """Whether it was a complete new version, as backfills are."""
    is_replaced: bool = False
    """Whether a later complete version has taken the place of its rows."""


def past_runs(evidence: Evidence, report: dict[str, Any]) -> list[PastRun]:
    """The last runs up to the report's own, oldest first."""
    seen, version = evidence.ledger, report["version"]
    last = [each for each in seen.entries if each <= version][-SHOWN_RUNS:]
    redrives = set(pc.unique(seen.of("redriven", ["version"])["version"]).to_pylist())
    ids = [seen.entries[each]["run_id"] for each in last]
    with ThreadPoolExecutor(READERS) as pool:
        figures = list(pool.map(lambda run_id: figures_of(evidence, run_id), ids[:-1]))
    figures.append(Figures.model_validate(report))
    return [
        past_run(seen, number, found, is_redrive=number in redrives)
        for number, found in zip(last, figures, strict=True)
    ]


def past_run(seen: Snapshot, version: int, figures: Figures, *, is_redrive: bool) -> PastRun:
    """A version with what the ledger knows of it."""
    entry = seen.entries[version]
    return PastRun(
        version,
        entry.get("published_at"),
        entry.get("rows", {}).get("written"),
        figures,
        is_redrive=is_redrive,
        replaces=entry["replaces"],
        is_replaced=version < seen.base,
    )


def figures_of(evidence: Evidence, run_id: str) -> Figures:
    """A run's figures; none where its manifest is missing or broken, which fails no report."""
    path = evidence.planned.output.manifest(run_id)
    try:
        return Figures.model_validate_json(evidence.planned.storage.read(path))
    except FileNotFoundError:
        return Figures()
    except (ValidationError, OSError) as error:
        logger.warning("the manifest %s cannot be read: %s", path, error)
        return Figures()
