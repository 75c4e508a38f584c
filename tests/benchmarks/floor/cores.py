"""One process a core, each with its share of the files."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.script import Arguments


def on_each_core(predict: Callable[[list[Path], Arguments], None], given: Arguments) -> None:
    """Share the files out among the cores, and wait for all.

    Raises:
        RuntimeError: a process failed.
    """
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, as Ray does it
    given.output.mkdir()
    cores = os.cpu_count() or 1
    files = sorted(given.inputs.iterdir())
    spawn = multiprocessing.get_context("spawn")
    processes = [
        spawn.Process(target=predict, args=(files[core::cores], given))
        for core in range(min(cores, len(files)))
    ]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    if any(each.exitcode for each in processes):
        raise RuntimeError("a process of the floor failed")
    given.finish()
