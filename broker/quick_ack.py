"""Tells a client's kernel at once that what it sent has come, not only with the answer to it.

librdkafka leaves Nagle's algorithm on, and so sends no small request until the one before it is
acknowledged. Linux forgets the option, so it is set again after each read; others have none.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

_OPTION: Final = getattr(socket, "TCP_QUICKACK", None)


def acknowledger(transport: asyncio.Transport) -> Callable[[], object]:
    """Return what is to be called after each read of a transport's socket."""
    accepted = transport.get_extra_info("socket")
    if _OPTION is None or accepted is None:
        return leave_alone
    return partial(accepted.setsockopt, socket.IPPROTO_TCP, _OPTION, 1)


def leave_alone() -> None:
    """Let the kernel acknowledge when it likes."""
