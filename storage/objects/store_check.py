"""Whether the object store can be used, for who asks now and then."""

import asyncio
from typing import Final

from storage.errors import ObjectStoreUnavailable, StorageError
from storage.objects.port import ObjectStore
from storage.objects.store_health import StoreState
from storage.objects.store_traffic import StoreTraffic

CHECK_S: Final = 1.5


async def check_store(objects: ObjectStore, path: str, traffic: StoreTraffic) -> StoreState:
    """Return how the store is doing, after a look at it; UNAVAILABLE if it takes no PUTs.

    Args:
        objects: asked for the first byte of an object.
        path: of that object.
        traffic: of all requests of this process, which count for more than one look.

    Raises:
        StorageError: it cannot be used, or does not answer.
    """
    failure: StorageError
    try:
        async with asyncio.timeout(CHECK_S):
            await objects.get(path, 0, 1)
    except StorageError as error:
        failure = error
    except TimeoutError:
        failure = ObjectStoreUnavailable(f"no answer in {CHECK_S} s")
    else:
        return traffic.health.state
    if traffic.health.state in {
        StoreState.SLOW,
        StoreState.THROTTLED,
    }:  # other requests get through
        return traffic.health.state
    raise failure
