"""Which version of its output a run is, and whether it still is."""

from typing import Any


def told_version(report: dict[str, Any]) -> str:
    """The version, and what has taken its place since.

    Args:
        report: a published run's, as JSON has it.
    """
    words, newer = f"version {report['version']}", report["replaced_by"]
    if newer is None:
        return words
    since = f"run {newer['run_id']} has published version {newer['version']} since"
    return f"{words}; {since}, which replaces its rows"
