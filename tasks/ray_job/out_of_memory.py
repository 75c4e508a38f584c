"""Gives memory back where it has run out."""

import gc
import sys


def give_back_memory() -> None:
    """Let go of what nobody uses any more; torch keeps a device's memory for later batches."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
