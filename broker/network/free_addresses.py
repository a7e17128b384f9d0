"""Whether a start can have its addresses, which is said before a database is made for it."""

import socket
from collections.abc import Iterable

from broker.config import Settings
from broker.network.addresses import Address, parse_address


class AddressNotUsable(OSError):
    """An address that the broker was told to listen on cannot be had; the message names it."""


def check_addresses(settings: Settings) -> None:
    """Try every address of --listen and --http, of all workers.

    Raises:
        AddressNotUsable: somebody has it, or it is none of this machine's.
    """
    texts = (*settings.listen, settings.http)
    given = [parse_address(text, listener=True) for text in texts]
    _try(Address(host, port + worker) for host, port in given for worker in range(settings.workers))


def _try(addresses: Iterable[Address]) -> None:
    for address in addresses:
        try:
            _bind(address)
        except OSError as error:  # a name that nobody knows is one, too
            raise AddressNotUsable(f"cannot listen on {address}: {error.strerror}") from error


def _bind(address: Address) -> None:
    """Bind all that a host stands for, but what this machine has no sockets for, as uvloop does.

    A name may stand for an IPv6 address on a machine without IPv6.

    Raises:
        OSError: one of them cannot be had, or no socket be made.
    """
    found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    is_bound, failure = False, OSError()
    for family, kind, protocol, _, place in found:
        try:
            trial = socket.socket(family, kind, protocol)
        except OSError as error:
            failure = error
            continue
        with trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            trial.bind(place)
            is_bound = True
    if not is_bound:
        raise failure
