"""What a stage raises where the fault is no row's: an error of ours that says what to do."""

from tasks.errors import BatchInferenceError, InvalidSpec, OutOfMemory, StageFailed
from tasks.kinds.models.machine_errors import chain, is_out_of_memory, words_of
from tasks.ray_job.own_frame import own_frame

MESSAGE_CHARACTERS = 2_000


def message_of(error: BaseException) -> str:
    """What an error says."""
    return storable(words_of(error))[:MESSAGE_CHARACTERS]


def storable(said: str) -> str:
    """Words in which halves of characters, that no file could hold, are as JSON writes them."""
    return said.encode(errors="backslashreplace").decode()


def reason_of(error: BaseException) -> str:
    """What an error says, however long that is, and where in the user's own code it was raised."""
    where = place_of(error)
    return f"{message_of(error)[: MESSAGE_CHARACTERS - len(where)]}{where}"


def place_of(error: BaseException) -> str:
    """Where in the user's own code an error was raised, to follow what it says; empty: nowhere."""
    frame = own_frame(error)
    return storable(f" ({frame})") if frame else ""


def describe(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {reason_of(error)}"


def stage_error(error: BaseException) -> BatchInferenceError:
    """An error as one of ours: final where a package is missing, which no attempt will bring."""
    if isinstance(error, BatchInferenceError):
        return error
    if isinstance(error, ModuleNotFoundError):
        return InvalidSpec(
            f"environment.pip: {describe(error)}, where the job runs: list the package that "
            f"contains {error.name!r} here, or install it there; cluster.kind inline, and a "
            "preview without --cluster (on_cluster), use this process's packages"
        )
    if isinstance(error, SystemExit):
        ended = f"the code ended its process (sys.exit({error.code!r})){place_of(error)}"
        return StageFailed(f"{ended}: raise an error")
    out_of_memory = next(filter(is_out_of_memory, chain(error)), None)
    if out_of_memory is not None:  # whatever the code made of it
        return OutOfMemory(
            f"{describe(out_of_memory)}; smaller batches no longer help: ask for a node with more "
            "memory (resources.memory_gb) or a larger GPU, or, if the model takes it, set "
            "resources.dtype to float16"
        )
    return StageFailed(describe(error))


def raised_by(stage: str, error: BaseException) -> BatchInferenceError:
    """What a stage raised as one of ours that says where; a wrong spec is no stage's fault."""
    known = stage_error(error)
    if known is not error:
        known.__cause__ = error
    return known if isinstance(known, InvalidSpec) else known.locate(stage)
