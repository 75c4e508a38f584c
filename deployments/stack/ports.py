"""Ports on loopback."""

import socket


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
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
