"""Watches the process that vLLM's engine runs in."""

from threading import Thread
from typing import Any


def watch(llm: Any) -> None:
    """See to it that who waits for the engine hears of its end, if its process is killed.

    That may be for want of memory. vLLM tells only those who wait by asyncio (as of 0.29); who
    calls it as we do would wait for answers for ever.

    Args:
        llm: a `vllm.LLM`, loaded.
    """
    core = llm.llm_engine.engine_core
    resources = getattr(core, "resources", None)
    if resources is None:  # it runs in this process
        return
    processes, answers = resources.engine_manager, core.outputs_queue

    def tell() -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        processes.monitor_engine_liveness()
        answers.put_nowait(EngineDeadError())

    Thread(target=tell, name="watch-engine", daemon=True).start()
