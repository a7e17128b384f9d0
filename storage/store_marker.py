"""The mark that a cluster leaves in its object store: whose records are kept there."""

import json
from typing import Final

from storage.errors import CorruptObject
from storage.objects import ObjectStore

MARKER: Final = "streamhouse.json"


def marker_of(cluster_id: str) -> bytes:
    """Return the content of the mark."""
    return b'{"cluster_id": "%s"}\n' % cluster_id.encode()


async def read_marker(objects: ObjectStore) -> str | None:
    """Return the id of the cluster whose records the store keeps; None if nobody has marked it.

    Raises:
        CorruptObject: what is there is no such mark.
        ObjectStoreUnavailable: no answer in time; retrying is safe.
    """
    async for found in objects.list(MARKER):
        if found.path != MARKER:
            continue
        content = await objects.get(MARKER, 0, found.size) if found.size else b""
        try:
            return str(json.loads(bytes(content))["cluster_id"])
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptObject(f"{MARKER} does not tell a cluster id: {error}") from error
    return None
