"""A TCP proxy between orchestrator and cluster, which stands for the network between them."""

import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Self

from deployments.stack.ports import any_free_port
from tests.chaos.matrix.link import Cut

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection."""


@dataclass
class Proxy:
    """Forwards, until it is cut: then it drops what comes, or refuses it."""

    target: int
    port: int = field(default_factory=any_free_port)
    ends: list[socket.socket] = field(default_factory=list)
    forwards: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        """URL of the target's stand-in."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()

    def cut(self, how: Cut) -> None:
        """Cut: what is dropped waits, as for TCP's retransmission; what is refused is reset."""
        self.forwards.clear()
        if how == "refuse":
            self.hang_up()

    def restore(self) -> None:
        """Forward again."""
        if self.listener.fileno() < 0:
            self.listen()
        self.forwards.set()

    def listen(self) -> None:
        """Take connections."""
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self.forwards.set()
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def hang_up(self) -> None:
        """Take no connection, and reset those that there are."""
        self.forwards.set()
        shut(self.listener)
        for end in self.ends:
            if end.fileno() >= 0:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.close()
        self.ends.clear()

    def accept(self, listener: socket.socket) -> None:
        """Connect whoever comes."""
        while True:
            self.forwards.wait()
            try:
                here, _ = listener.accept()
            except OSError:
                return
            try:
                there = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                shut(here)
                continue
            there.settimeout(None)
            self.ends += [here, there]
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self.pump, args=pair, daemon=True).start()

    def pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Hand on what one end says, until it says no more."""
        try:
            while data := source.recv(1 << 16):
                self.forwards.wait()
                sink.sendall(data)
        except OSError:
            pass
        finally:
            self.forwards.wait()
            shut(source)
            shut(sink)


def shut(end: socket.socket) -> None:
    """Close, also where another thread waits for it."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    finally:
        end.close()
