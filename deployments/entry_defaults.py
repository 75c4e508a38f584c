"""What Prefect would take otherwise where an entry of a file of deployments does not say it."""

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


def enforce_schemas(entries: list[dict[str, Any]]) -> None:
    """Write into a file's entries that parameters are looked at, where one does not say it.

    Else Prefect leaves it as it is on the server, where an entry has said before that they are not.

    Args:
        entries: the file's deployments, whose values have been looked at.
    """
    for entry in entries:
        if entry.get("enforce_parameter_schema") is None:
            entry["enforce_parameter_schema"] = True
