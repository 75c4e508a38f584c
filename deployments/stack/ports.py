"""Ports on loopback."""

import socket
from random import SystemRandom

FOR_LATER = range(20_000, 32_768)
"""Ports that a system hands out to nobody, as it does those above, and Ray's workers do not take,
as they do those below."""


def is_free(port: int) -> bool:
    """Whether nobody listens on a port of this machine."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port_from(first: int) -> int:
    """The first port from one on that nobody listens on.

    Raises:
        OSError: none of a hundred is free.
    """
    for port in range(first, first + 100):
        if is_free(port):
            return port
    raise OSError(f"no port from {first} to {first + 99} is free")


def any_free_port() -> int:
    """A port that nobody listens on, and that hardly anybody takes before who it is for.

    One that the system hands out goes to the next connection of anybody on the machine.

    Raises:
        OSError: none of a hundred is free.
    """
    for port in SystemRandom().sample(FOR_LATER, 100):
        if is_free(port):
            return port
    raise OSError(f"no port from {FOR_LATER.start} to {FOR_LATER.stop - 1} is free")
