"""What decides a prediction, as a digest: two that differ are never mixed in one output."""

import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any

from tasks.errors import InvalidSpec
from tasks.kinds.models import Model
from tasks.planning.config_parts import PLACE, parts_of, place_of
from tasks.planning.unfinished_errors import giving_up
from tasks.protocol.ledger import Snapshot
from tasks.spec import BatchInferenceSpec

Differences = Callable[[str], tuple[list[str], list[str]]]
"""Of source and options, and of what decides a prediction, from a published run's, by its id."""


def config_digests(
    spec: BatchInferenceSpec, fingerprints: dict[str, str], limit: int | None
) -> tuple[str, str]:
    """All that decides what a row's prediction is, but not which rows there are.

    What is left at its default is not in it: fields that an upgrade brings change no digest. Nor
    is the model's place, where its content is known: its files may move.

    Args:
        spec: what to run.
        fingerprints: of weights and code.
        limit: how many rows it stops after, if it does.

    Returns:
        The digest to publish, and that of earlier releases, in which the model's place counted:
        what they published, and the runs that they left unfinished, go on under theirs.
    """
    here = config_digest(spec, fingerprints, limit, frozenset())
    place = place_of(spec.model)
    return config_digest(spec, fingerprints, limit, place) if place else here, here


def config_digest(
    spec: BatchInferenceSpec,
    fingerprints: dict[str, str],
    limit: int | None,
    without: frozenset[str],
) -> str:
    """One of these digests, without some of the model's fields."""
    return digest(parts_of(spec, fingerprints, limit, without))


def model_digest(model: Model, fingerprint: str) -> str:
    """What decides which vectors a model makes: its settings, weights and code, not their place.

    Args:
        model: as the spec has it.
        fingerprint: of its weights.
    """
    settings = model.identity(PLACE | {"revision"})
    return digest([settings, fingerprint, model.code_digest()])


def refuse_other_config(
    seen: Snapshot,
    configs: tuple[str, ...],
    limit: int | None,
    what_differs: Differences,
    begun: Callable[[], Collection[str]],
) -> None:
    """Never mix the predictions of two models or configs in one output.

    Args:
        seen: what is published.
        configs: digests of what is asked for, and of what counts as the same.
        limit: how many rows it stops after, if it does.
        what_differs: of source and options, and of what decides a prediction, from a published
            run's, by its id, as far as that is known.
        begun: the unfinished runs.

    Raises:
        InvalidSpec: says what differs, since when, and the way out.
    """
    version = other_config(seen, configs)
    if version is None:
        return
    run = seen.entries[version]["run_id"]
    differs = what_is_other(run, limit, what_differs)
    flag, gives_up = giving_up(is_begun=bool(begun()))
    replace = f"--replace-output{flag}"
    ways = f"`batch-inference backfill SPEC{flag}` (or {replace}) {gives_up}predicts every input "
    ways += "again, or use another sink.path"
    ways += ". If it should not change predictions, `batch-inference verify SPEC --accept` checks "
    ways += "whether published rows come out the same, and then lets runs continue"
    if limit is not None:
        ways = f"{replace} {gives_up}predicts these rows again, or use another --output"
    raise InvalidSpec(
        f"another config published version {version} (run {run}), and predictions of two configs "
        f"are not mixed; what differs: {differs}. Undo the change, or {ways}"
    )


def notes_of_redrive(
    seen: Snapshot, configs: tuple[str, ...], what_differs: Differences
) -> list[str]:
    """What to know where a redrive's rows are of another model or config than the published ones.

    Args:
        seen: what is published.
        configs: digests of what is asked for, and of what counts as the same.
        what_differs: as `refuse_other_config` takes it.
    """
    version = other_config(seen, configs)
    if version is None:
        return []
    differs = what_is_other(seen.entries[version]["run_id"], None, what_differs)
    return [
        f"the rows set aside are predicted with another config than version {version}; what "
        f"differs: {differs}. Runs continue with that version's config: with this one they are "
        "refused until `batch-inference backfill SPEC` has predicted every input again"
    ]


def what_is_other(run_id: str, limit: int | None, what_differs: Differences) -> str:
    """What differs from a published run, as far as that is known."""
    differs = "; ".join(what_differs(run_id)[1])
    if differs:
        return differs
    differs = "model, steps, sink or code, or how the source is cut into inputs"
    differs = f"--limit, {differs}" if limit is not None else differs
    return f"unknown: {differs}; or nothing, where another release published that version"


def other_config(seen: Snapshot, configs: tuple[str, ...]) -> int | None:
    """The first version of what is published that another model or config made."""
    entries = {v: e for v, e in seen.entries.items() if v >= seen.base}
    return next((v for v, e in entries.items() if e.get("config") not in (None, *configs)), None)


def digest(parts: Any) -> str:
    """JSON values in 32 characters."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
