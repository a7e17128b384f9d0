"""Reads the index at the end of an object."""

from collections.abc import Callable

from storage.errors import CorruptObject
from storage.objects.port import ObjectStore, Owned, StoredObject


async def read_tail(
    objects: ObjectStore,
    stored: StoredObject,
    footer_bytes: int,
    length_of: Callable[[Owned], int],
) -> Owned:
    """Return the index at the end of an object.

    Args:
        objects: where it is.
        stored: the object.
        footer_bytes: how many bytes tell how long the index is.
        length_of: reads that from them.

    Raises:
        CorruptObject: it does not end like one.
        BadObject, ObjectStoreUnavailable: it cannot be read.
    """
    if stored.size < footer_bytes:
        raise CorruptObject(f"{stored.size} bytes are too few")
    first = await objects.get(stored.path, stored.size - footer_bytes, footer_bytes)
    length = length_of(first)
    if not footer_bytes <= length <= stored.size:
        raise CorruptObject(f"an index of {length} bytes in an object of {stored.size}")
    return await objects.get(stored.path, stored.size - length, length)
