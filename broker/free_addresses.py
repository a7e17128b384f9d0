"""Whether a start can have its addresses, which is said before a database is made for it."""

import socket
from collections.abc import Iterable

from broker.addresses import Address, parse_address
from broker.config import Settings


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
            found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, place in found:
                with socket.socket(family, kind, protocol) as trial:
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if family == socket.AF_INET6:
                        trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    trial.bind(place)
        except OSError as error:  # a name that nobody knows is one, too
            raise AddressNotUsable(f"cannot listen on {address}: {error.strerror}") from error
