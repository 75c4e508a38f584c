"""The publish task, which tells Prefect what the output is made from: source -> output."""

import logging
import re
from typing import Any

from prefect import Task, get_run_logger, task
from prefect.assets import Asset, AssetProperties, add_asset_metadata, materialize

from tasks.plan import PlannedRun
from tasks.publish import publish_planned
from tasks.reporting.addresses import sink_page, sink_url, source_urls
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import storage_of_output, until_reachable

logger = logging.getLogger(__name__)

MADE_BY = "prefect-ray-data"
NOT_IN_KEYS = re.compile(r"[\s\0#?&%\"'<>\[\]{}|\\^`]")
"""What Prefect takes in no asset's key."""
NAMED_SOURCES = 50
"""An event may name a hundred things, some of them Prefect's own."""


def publish_run(planned: PlannedRun) -> int:
    """Publish a run as a task; return the output's version.

    Prefect is told of it as an asset made from others: each flow that reads what another writes
    follows it in the lineage. What cannot be told is logged, and published all the same.

    Raises:
        BatchInferenceError: as `publish_planned`; Prefect is told that the output was not made.
    """
    try:
        output = output_asset(planned.spec)
        sources = source_assets(planned.spec)
        publish: Task[[PlannedRun], int] = materialize(
            output, by=MADE_BY, asset_deps=sources, name="publish", persist_result=False, retries=0
        )(publish_and_tell)
    except Exception:
        logger.exception("run %s is published without its lineage", planned.run.run_id)
        publish = task(name="publish", persist_result=False, retries=0)(publish_patiently)
    return publish(planned)


def publish_patiently(planned: PlannedRun) -> int:
    """Publish a run, and wait for an output's storage that is away; nothing is done twice."""

    def publish() -> int:
        with storage_of_output():
            return publish_planned(planned)

    seconds = planned.spec.timeouts.unreachable_seconds
    return until_reachable(publish, seconds, get_run_logger().warning)


def publish_and_tell(planned: PlannedRun) -> int:
    """Publish a run, and add to the asset what it is now; return its version."""
    version = publish_patiently(planned)
    try:
        key = asset_key(sink_url(planned.spec.sink))
        add_asset_metadata(key, facts_of(planned, version))
    except Exception:
        logger.exception("run %s is published, but its lineage lacks figures", planned.run.run_id)
    return version


def facts_of(planned: PlannedRun, version: int) -> dict[str, Any]:
    """What the output's asset is said to be."""
    return {
        "name": planned.spec.name,
        "version": version,
        "run_id": planned.run.run_id,
        "rows": planned.ledger.look().entries[version]["rows"],
        "model": planned.plan.pins["fingerprints"]["model"],
    }


def output_asset(spec: BatchInferenceSpec) -> Asset:
    """The output as an asset, with what a browser opens."""
    properties = AssetProperties(name=spec.name, url=sink_page(spec.sink))
    return Asset(key=asset_key(sink_url(spec.sink)), properties=properties)


def source_assets(spec: BatchInferenceSpec) -> list[Asset | str]:
    """What the rows come from, as assets."""
    keys = list(dict.fromkeys(map(asset_key, source_urls(spec.source))))
    if len(keys) > NAMED_SOURCES:
        logger.warning("the lineage names %d of %d sources", NAMED_SOURCES, len(keys))
    return [*keys[:NAMED_SOURCES]]


def asset_key(url: str) -> str:
    """A URL as Prefect takes it: what it refuses stands as ~ and two hexadecimal digits."""
    return NOT_IN_KEYS.sub(lambda found: f"~{ord(found[0]):02X}", url)
