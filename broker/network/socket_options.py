"""Options and state of an accepted socket, as Linux has them; elsewhere they are left alone."""

import asyncio
import ctypes
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

UNSENT_BYTES: Final = 128 * 1024

_QUICK_ACK: Final = getattr(socket, "TCP_QUICKACK", None)
_NOT_SENT: Final = getattr(socket, "TCP_NOTSENT_LOWAT", None)

# What uvloop hands out makes a socket object, and lets go of it, for each option that is set.
_set_option: Final = ctypes.PyDLL(None).setsockopt
_set_option.argtypes = [
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int),
    *(ctypes.POINTER(ctypes.c_int), ctypes.c_uint32),
]
_INFO: Final = getattr(socket, "TCP_INFO", None)
_LEFT: Final = (7, 8)  # TCP_CLOSE, TCP_CLOSE_WAIT: the first byte of what the kernel tells
_ON: Final = ctypes.c_int(1)


def acknowledger(transport: asyncio.Transport) -> Callable[[], object]:
    """Return what is to be called after each read of a transport's socket.

    It tells the client's kernel at once that what it sent has come, not only with the answer to it:
    librdkafka leaves Nagle's algorithm on, and so sends no small request until the one before it is
    acknowledged. Linux forgets the option, so it is set again after each read.
    """
    accepted = transport.get_extra_info("socket")
    if _QUICK_ACK is None or accepted is None:
        return leave_alone
    return partial(
        _set_option, accepted.fileno(), socket.IPPROTO_TCP, _QUICK_ACK, _ON, ctypes.sizeof(_ON)
    )


def leave_alone() -> None:
    """Let the kernel acknowledge when it likes."""


def keep_unsent_short(transport: asyncio.Transport) -> None:
    """Let the kernel take no more than UNSENT_BYTES beyond what the peer has room for.

    Left alone it takes 4 MiB for each peer that does not read: gigabytes of a machine's memory for
    a thousand of them. socket.send.buffer.bytes (100 KiB in Apache Kafka) would bound what is under
    way, too, and so the speed of who reads from afar.
    """
    accepted = transport.get_extra_info("socket")
    if _NOT_SENT is not None and accepted is not None:
        accepted.setsockopt(socket.IPPROTO_TCP, _NOT_SENT, UNSENT_BYTES)


def has_left(transport: asyncio.Transport | None) -> bool:
    """Tell whether the peer has closed its end, which who does not read a socket is not told."""
    accepted = None if transport is None else transport.get_extra_info("socket")
    if _INFO is None or accepted is None:
        return False
    return accepted.getsockopt(socket.IPPROTO_TCP, _INFO, 1)[0] in _LEFT
