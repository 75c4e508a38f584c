"""Runs planned in the same seconds, of which neither saw the other: which of them go on."""

from datetime import datetime
from typing import Any

from tasks.errors import OutputHeld
from tasks.planning.config import Differences
from tasks.planning.unfinished import UnfinishedRuns
from tasks.protocol.layout import RunFolder

Header = dict[str, Any]


def refuse_second(unfinished: UnfinishedRuns, run: RunFolder, what_differs: Differences) -> None:
    """Refuse a run beside one that was begun at the same time, where one would work in vain.

    Before anything expensive is started: what one of them publishes would have the other refused
    in the end, or would be replaced by the other. No unfinished run is left in anybody's way.

    Args:
        unfinished: runs on the output as it stands.
        run: the folder of the one that has just left its header.
        what_differs: of source and options, and of what decides a prediction, from another run's.

    Raises:
        OutputHeld: the other one goes on.
    """
    headers = {each["run_id"]: each for each in unfinished.headers() if not each["abandoned"]}
    own = headers.pop(run.run_id, None)
    if own is None:  # a listing may lag behind
        return
    for other in headers.values():
        if goes_first(other, own) and are_at_odds(other, own, what_differs):
            try:
                unfinished.refuse_live(unfinished.run_of(other))
            except OutputHeld:
                unfinished.storage.delete(run.header)
                raise


def goes_first(other: Header, own: Header) -> bool:
    """Whether another run is the one to go on, as that one sees it too.

    Of two scheduled times of which each is to replace the one before that is the later one.
    """
    if mode_of(other) == mode_of(own) == "replace":
        theirs, ours = (each.get("scheduled_time") for each in (other, own))
        if theirs and ours and theirs != ours:
            return datetime.fromisoformat(theirs) > datetime.fromisoformat(ours)
    place = (other["created"], other["run_id"])
    return place < (own["created"], own["run_id"])


def are_at_odds(other: Header, own: Header, what_differs: Differences) -> bool:
    """Whether not both can be published, one after the other, and stay.

    Rows that are added, of the same config, are; and a redrive may be of another one.
    """
    both = (other, own)
    if any(makes_new_version(each) for each in both):
        return True
    is_redrive = any(each["call"].get("redrive") for each in both)
    return not is_redrive and bool(what_differs(other["run_id"])[1])


def makes_new_version(header: Header) -> bool:
    """Whether all that is published is to be replaced."""
    call = header["call"]
    return not call.get("redrive") and bool(
        call.get("replace_output") or mode_of(header) == "replace"
    )


def mode_of(header: Header) -> str | None:
    """The sink's mode, as a run's spec has it."""
    mode: str | None = header["spec"].get("sink", {}).get("mode")
    return mode
