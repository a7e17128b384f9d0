"""What a start that failed says: what went wrong, and which flag mends it, where one does."""

import errno
from typing import Final

from broker.network.free_addresses import AddressNotUsable
from storage.errors import (
    IdentityTaken,
    MetadataUnavailable,
    ObjectStoreUnavailable,
    OlderBrokersAlive,
    TableInUse,
)

OWN_ADDRESS: Final = "; give each broker an address of its own with --advertise"


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
        case MetadataUnavailable() if not isinstance(error, OlderBrokersAlive | TableInUse):
            return f"{error}; --postgres says where the database is"
        case ObjectStoreUnavailable():
            return f"{error}; --store says where the object store is"
        case _:
            return str(error)
