"""Tells that memory has run out, on a device or here, from what libraries raise."""

import gc
import re
import sys

SAID = re.compile(
    r"out of memory|can't allocate memory|failed to allocate memory|bad_alloc|bad allocation"
    r"|OOM when allocating|RESOURCE_EXHAUSTED|CUBLAS_STATUS_ALLOC_FAILED|ErrorMemoryAllocation",
    re.IGNORECASE,
)
"""What libraries say in errors of a general class."""
GENERAL = (
    *("RuntimeError", "RuntimeException", "Fail"),
    *("XGBoostError", "XlaRuntimeError", "JaxRuntimeError"),
)
OF_MEMORY = ("OutOfMemoryError", "ResourceExhaustedError")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out: torch's, NumPy's, ONNX Runtime's, ...

    Rows may hold the same words: only errors of a library's general classes are read.
    """
    names = {each.__name__ for each in type(error).__mro__}
    if isinstance(error, MemoryError) or names & {*OF_MEMORY}:
        return True
    return type(error).__name__ in GENERAL and bool(SAID.search(str(error)))


def give_back_memory() -> None:
    """Let go of what nobody uses any more; torch keeps a device's memory for later batches."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
