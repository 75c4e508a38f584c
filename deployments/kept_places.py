"""How long a deployment's limit keeps a place for a run whose process is still to begin."""

from typing import Any


def keep_places(entries: list[dict[str, Any]]) -> None:
    """Write into a file's entries that a place is kept for as long as a process may take to begin.

    After Prefect's five minutes, as while a node is started, the next would take it, and the run
    whose process begins then be cancelled for good. What an entry says itself counts.

    Args:
        entries: the file's deployments, whose values have been looked at.
    """
    from deployments.dead_runs import UNSTARTED_MINUTES

    kept = {"grace_period_seconds": UNSTARTED_MINUTES * 60}
    for entry in entries:
        limit = entry.get("concurrency_limit")
        if isinstance(limit, int | str):
            limit = {"limit": int(limit), "collision_strategy": "ENQUEUE"}
        if isinstance(limit, dict) and limit.get("grace_period_seconds") is None:
            entry["concurrency_limit"] = {**limit, **kept}
