"""Who can be reached from other machines."""

from contextlib import suppress

import psutil

LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


def listeners(process: psutil.Process) -> tuple[list[str], list[str]]:
    """Ports of a process and all that it has started: on loopback, and where others reach them."""
    near: list[str] = []
    far: list[str] = []
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # it ends meanwhile
            for found in each.net_connections("inet"):
                if found.status == psutil.CONN_LISTEN:
                    place = near if found.laddr.ip in LOOPBACK else far
                    place.append(f"{each.name()} listens on {found.laddr.ip}:{found.laddr.port}")
    return near, far
