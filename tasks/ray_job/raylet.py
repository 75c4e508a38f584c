"""Ends a worker with its raylet.

Ray's workers look by themselves whether their raylet lives. After a head was replaced they do not:
raylets of the old cluster give up, and their workers stay, busy with lost connections, and hold
their GPU. The kernel sees to it instead.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
INIT = 1


def end_with_raylet() -> None:
    """Called in each worker when it starts; where the kernel is another, Ray is trusted."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == INIT:  # it has died before
        os._exit(1)
