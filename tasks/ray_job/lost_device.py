"""Ends a process whose device takes no call any more: another one may find the row to blame."""

import os
import sys
from typing import Any

from tasks.kinds.models.machine_errors import chain, is_of_the_machine, loses_device
from tasks.ray_job.poison_rows import InHand
from tasks.ray_job.stage_error import message_of, place_of


def end_if_device_is_lost(error: BaseException, in_hand: InHand | None) -> None:
    """End this process, a replica's, where an error has made its device useless to it.

    To raise it would end the job, and the next one at the same row; a new process finds the device
    as it was, and Ray gives it the same batch. Not where the device is broken for others too.
    """
    found = loss(error)
    if found is None or (in_hand and in_hand.is_device_broken):
        return
    said = f"{type(found).__name__}: {message_of(found).splitlines()[0]}{place_of(found)}"
    if in_hand:
        in_hand.note_loss(said)
    print(f"the GPU accepts no more calls from this process, another continues: {said}", flush=True)
    sys.stderr.flush()
    os._exit(1)


def loss(error: BaseException) -> BaseException | None:
    """What says that the device is lost: an error, what led to it, or a further call.

    The first that fails may speak of a library (`CUBLAS_STATUS_NOT_INITIALIZED`, or memory that it
    does not get) where an earlier kernel is to blame.
    """
    told = next(filter(loses_device, chain(error)), None)
    torch: Any = sys.modules.get("torch")
    if told or torch is None or not is_of_the_machine(error) or not torch.cuda.is_initialized():
        return told
    try:
        torch.cuda.synchronize()
    except Exception as later:
        return later if loses_device(later) else None
    return None
