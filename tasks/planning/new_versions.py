"""Complete new versions of an output, and the published rows whose place they are not to take."""

from datetime import datetime

from tasks.counted import counted
from tasks.errors import InvalidSpec, OutputHeld
from tasks.kinds.sources.listing import leads_to
from tasks.planning.new_inputs import published_paths
from tasks.protocol.ledger import Snapshot
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec


def later_time(spec: BatchInferenceSpec, options: RunOptions, seen: Snapshot) -> str | None:
    """The scheduled time of what is published, where that is later and is not to be replaced.

    Each takes the place of the one before; after days without a worker they start in any order.

    Args:
        spec: what to run.
        options: how it is called.
        seen: what is published.
    """
    published = seen.entries.get(seen.base, {})
    time, there = options.scheduled_time, published.get("scheduled_time")
    is_meant = options.replace_output or options.is_backfill or options.redrive
    is_meant = is_meant or options.limit is not None
    if spec.sink.mode != "replace" or not options.shares_output or is_meant:
        return None
    return there if time and there and datetime.fromisoformat(there) > time else None


def refuse_later(spec: BatchInferenceSpec, options: RunOptions, seen: Snapshot) -> None:
    """Refuse to publish where a later time's rows have been since, which is not to be replaced.

    Of two nights that begin at the same moment neither sees the other when it is planned.

    Args:
        spec: what was run.
        options: how it was called.
        seen: what is published by now.

    Raises:
        OutputHeld: names that time, and the way to publish all the same.
    """
    if later := later_time(spec, options, seen):
        raise OutputHeld(
            f"the rows of a later scheduled time, {later}, have been published since this run was "
            "planned, and with sink.mode: replace each time replaces the one before: nothing is "
            "published; --replace-output publishes this one's rows anyway"
        )


def refuse_loss_of_times(spec: BatchInferenceSpec, seen: Snapshot, *, is_of_range: bool) -> None:
    """Refuse a new version of some scheduled times, where those of others would be gone.

    Args:
        spec: filled in with these times.
        seen: what is published at the output that the times share.
        is_of_range: whether a backfill asks; else it is of one time.

    Raises:
        InvalidSpec: says how many inputs, which first, and the ways out.
    """
    others = [path for path in published_paths(seen) if not leads_to(spec.source, path)]
    if not others:
        return
    lost = f"those of {counted(len(others), 'published input')}"
    if is_of_range:
        raise InvalidSpec(
            f"the new version would leave {spec.sink.path} with the rows of the backfill's range "
            f"only: {lost} outside it would be lost, the first of them {min(others)}: widen the "
            "range, or use another sink.path"
        )
    raise InvalidSpec(
        f"--replace-output would leave {spec.sink.path} with the rows of one scheduled time "
        f"only: {lost} of other times would be "
        f"lost, the first of them {min(others)}. `batch-inference backfill SPEC --from TIME "
        "--to TIME` predicts a range of times again as one version; if each time should "
        "replace the one before, set sink.mode: replace"
    )
