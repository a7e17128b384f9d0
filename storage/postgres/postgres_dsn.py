"""What a Postgres DSN says, as asyncpg reads it, without showing what is secret in it."""

import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES: Final = ("postgresql://", "postgres://")
FORM: Final = "use a DSN such as postgresql://user:password@host:5432/database"

_ENCRYPTED: Final = ("require", "verify-ca", "verify-full")
_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_LOOPBACK_NAME: Final = "localhost"
_PORT: Final = "5432"
_HIGHEST_PORT: Final = 65535


def check_dsn(dsn: str) -> None:
    """Find what would be misread: asyncpg's errors repeat parts of a DSN, of a password perhaps.

    Raises:
        ValueError: the message tells how to mend it, and shows nothing of it.
    """
    if not dsn.startswith(SCHEMES):
        raise ValueError(FORM)
    try:
        parts = urlsplit(dsn)
        ports = [host.rpartition(":")[2] for host in _host_texts(parts.netloc) if _has_port(host)]
    except ValueError:  # the brackets of an IPv6 address, or characters that are no host's
        raise ValueError(FORM) from None
    options = parse_qsl(parts.query)
    ports += [port for name, value in options if name == "port" for port in value.split(",")]
    readable = all(port.isascii() and port.isdecimal() for port in ports)
    if not readable or parts.fragment or "@" in parts.path:
        raise ValueError(f"{FORM}, with / ? # and % in user and password percent-encoded")
    if any(int(port) > _HIGHEST_PORT for port in ports):
        raise ValueError(f"{FORM}, with a port of {_HIGHEST_PORT} or less")
    for name, path in options:
        if name in _FILES and not Path(path).is_file():
            raise ValueError(f"{name}: there is no file {path}")


def unencrypted_hosts(dsn: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the hosts other than this one that may be spoken to without TLS.

    Args:
        dsn: that check_dsn takes.
        environment: what asyncpg takes for what a DSN leaves out.
    """
    parts = urlsplit(dsn)
    options = dict(parse_qsl(parts.query))
    if options.get("sslmode", environment.get("PGSSLMODE", "")) in _ENCRYPTED:
        return []
    texts = [_without_port(host) for host in _host_texts(parts.netloc)]
    texts = texts or (options.get("host") or environment.get("PGHOST", "")).split(",")
    return [host for host in texts if not is_local(host)]


def database_name(dsn: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return what operators call the database: its name and where it is, nothing secret.

    Args:
        dsn: that check_dsn takes.
        environment: what asyncpg takes for what a DSN leaves out.
    """
    parts = urlsplit(dsn)
    options = dict(parse_qsl(parts.query))
    user = unquote(parts.username or "") or options.get("user") or environment.get("PGUSER", "")
    name = unquote(parts.path.strip("/")) or options.get("dbname") or options.get("database")
    name = name or environment.get("PGDATABASE") or user
    port = options.get("port") or environment.get("PGPORT") or _PORT
    hosts = _host_texts(parts.netloc)
    hosts = hosts or (options.get("host") or environment.get("PGHOST") or _LOOPBACK_NAME).split(",")
    places = [one if _has_port(one) else f"{one}:{port}" for one in hosts]
    return f"database {name} at {', '.join(places)}"


def _host_texts(netloc: str) -> list[str]:
    hosts = netloc.rpartition("@")[2]
    return [host for host in hosts.split(",") if host]


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]


def _without_port(host: str) -> str:
    return (host.rpartition(":")[0] if _has_port(host) else host).strip("[]")


def is_local(host: str) -> bool:
    """Tell whether it is this machine: a socket's folder, or loopback."""
    if not host or host.startswith("/") or host.lower() == _LOOPBACK_NAME:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
