"""What a broker that cannot start, or go on, says: why, and which flag mends it, where one does."""

import errno
from typing import Final

from broker.network.free_addresses import AddressNotUsable
from storage.errors import (
    IdentityTaken,
    MetadataUnavailable,
    MetadataWentBack,
    ObjectStoreUnavailable,
    OlderBrokersAlive,
    TableInUse,
)

OWN_ADDRESS: Final = "; give each broker an address of its own with --advertise"


SET_BACK: Final = (
    "; stop all brokers and see When Postgres was set back in docs/operations.md: they would give "
    "the offsets of acknowledged records away again"
)


def start_failure(error: Exception) -> str:
    """Return the line for the operator."""
    match error:
        case (
            AddressNotUsable()
            | OSError(errno=errno.EADDRINUSE | errno.EADDRNOTAVAIL | errno.EACCES, filename=None)
        ):
            return f"{error}; choose another address with --listen or --http"
        case OSError(filename=str(path), strerror=reason):
            return f"{path}: {reason}; choose a directory that this user can write with --data"
        case IdentityTaken():
            return f"{error}{OWN_ADDRESS}"
        case MetadataUnavailable():
            return f"{error}{_metadata_hint(error)}"
        case ObjectStoreUnavailable():
            return f"{error}; --store says where the object store is"
        case _:
            return str(error)


def _metadata_hint(error: MetadataUnavailable) -> str:
    match error:
        case MetadataWentBack():
            return SET_BACK
        case OlderBrokersAlive() | TableInUse():
            return ""
        case _:
            return "; --postgres says where the database is"


def end_told(ended: BaseExceptionGroup[Exception]) -> str:
    """Return the line for the operator of a broker that cannot go on, and need not be mended."""
    error = innermost(ended)
    if isinstance(error, MetadataWentBack):
        return f"{error}{SET_BACK}"
    return f"{error}; this one ends{OWN_ADDRESS}"


def innermost(error: BaseException) -> BaseException:
    """Return the first exception of a group, of a group in it, and so on."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
