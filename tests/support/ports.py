"""Ports to listen on, found before who listens is started.

They lie below those that the kernel gives to outgoing connections: of those one would be taken by a
client between the look and the listening. Where a look begins is drawn by lot, and not by `random`,
which Hypothesis seeds alike in every process: so two processes hardly ever find the same ones.
"""

import secrets
import socket
from contextlib import ExitStack
from typing import Final

LOWEST: Final = 10_000
END: Final = 32_000


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """Return the first of so many such ports that follow each other."""
    while True:
        first = LOWEST + secrets.randbelow(END - count - LOWEST)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
