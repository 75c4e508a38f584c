"""How a job ended, from the process it ran in to the one that follows it."""

import re
import traceback
from typing import Any

from tasks import errors
from tasks.errors import BatchInferenceError, JobLost
from tasks.ray_job.stage_error import stage_error

TRACEBACK_CHARACTERS = 8_000
RAYS_ADVICE = re.compile(r"\s*Failed to apply UDF transform after .*", re.DOTALL)
"""Ray ends the message of what user code raised with its own view of retries."""


def explain(error: BaseException) -> dict[str, Any]:
    """An error as `failure` makes it again: class, message, stage, file, row."""
    known = stage_error(cause_of(error))
    return {
        "class": type(known).__name__,
        "message": RAYS_ADVICE.sub("", known.message).strip(),
        "stage": known.stage,
        "source": known.source,
        "row": known.row,
        "node": known.node,
        "traceback": "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS:],
    }


def failure(result: dict[str, Any]) -> BatchInferenceError | None:
    """The error a job's result speaks of, as an exception of ours; None where it succeeded."""
    error = result["error"]
    if error is None:
        return None
    known: type[BatchInferenceError] = getattr(errors, error["class"], JobLost)
    raised = known(error["message"])
    if error.get("stage"):
        raised.locate(error["stage"], error["source"], error["row"])
    raised.node = error.get("node")
    if error.get("traceback"):
        raised.add_note(f"Where the job ran:\n{error['traceback']}")
    return raised


def cause_of(error: BaseException) -> BaseException:
    """The outermost error of ours below what Ray wrapped around it, else of anybody but Ray."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        # Ray makes an error of its own that is also of the wrapped one's class.
        if isinstance(at, BatchInferenceError) and not hasattr(at, "cause"):
            return at
        seen.append(at)
        inner = getattr(at, "cause", None)
        at = inner if isinstance(inner, BaseException) else at.__cause__
    return next((each for each in seen if not is_rays(each)), error)


def is_rays(error: BaseException) -> bool:
    """Whether an error is one of Ray's, which says little of what happened."""
    return type(error).__module__.startswith("ray.")
