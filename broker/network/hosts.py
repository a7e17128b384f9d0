"""Addresses of clients' hosts, which have more than one way to be written."""

import functools
import ipaddress
from typing import Final

from protocol.acl import WILDCARD

_REMEMBERED: Final = 4096


@functools.lru_cache(maxsize=_REMEMBERED)
def host_form(host: str) -> str:
    """Return the one form of an address; what is no address stays as it is.

    An IPv4 address that a socket for both kinds shows as IPv6 (::ffff:192.0.2.1) is the IPv4 one.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


@functools.lru_cache(maxsize=_REMEMBERED)
def acl_hosts(host: str) -> frozenset[str]:
    """Return the hosts whose ACLs count for a client, by their one form.

    Of an address with a scope (fe80::1%eth0) those without it count, too.
    """
    form = host_form(host)
    return frozenset({WILDCARD, form, host_form(form.partition("%")[0])})
