"""The mark that a cluster leaves in its object store: whose records are kept there."""

import json
from dataclasses import asdict, dataclass
from typing import Final
from uuid import uuid4

from storage.errors import CorruptObject
from storage.objects.port import ObjectStore

MARKER: Final = "streamhouse.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMark:
    """What the mark says.

    Attributes:
        cluster_id: of the cluster whose records are kept there.
        store_id: of this store, which the cluster knows, too: two brokers that are sent to
            different empty stores may both leave a mark, and only one of them is the cluster's.
            Marks that were made before there were such ids have the cluster's for it.
    """

    cluster_id: str
    store_id: str

    def is_of(self, cluster_id: str, store_id: str | None) -> bool:
        """Return whether the marked store is a cluster's.

        Args:
            cluster_id: of the cluster.
            store_id: of its store; None if it has none yet.
        """
        return self.cluster_id == cluster_id and store_id in (self.store_id, None)

    def content(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def new_mark(cluster_id: str) -> StoreMark:
    """Return a mark for a store that has none."""
    return StoreMark(cluster_id=cluster_id, store_id=uuid4().hex)


async def read_marker(objects: ObjectStore) -> StoreMark | None:
    """Return the mark of a store; None if nobody has marked it.

    Raises:
        CorruptObject: what is there is no such mark.
        ObjectStoreUnavailable: no answer in time; retrying is safe.
    """
    async for found in objects.list(MARKER):
        if found.path != MARKER:
            continue
        content = await objects.get(MARKER, 0, found.size) if found.size else b""
        try:
            said = json.loads(bytes(content))
            cluster_id = str(said["cluster_id"])
            return StoreMark(cluster_id=cluster_id, store_id=str(said.get("store_id", cluster_id)))
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptObject(f"{MARKER} does not tell a cluster id: {error}") from error
    return None
