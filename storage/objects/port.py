"""The object store port (D3): few verbs, so that a directory, S3 or a fake can stand behind it.

Contract, checked for every implementation by tests/contracts/test_objects.py:
- An object is immutable. `put` stores it whole and durably, or not at all: when it returns, a power
  cut loses nothing; when it raises, no part of it can be read as that object.
- `put` is safe to repeat. A path that already holds the same bytes counts as stored (an earlier try
  may have succeeded with its answer lost); other bytes under that path are ObjectConflict.
- `get` returns exactly the range asked for. A missing object or one too short is ObjectMissing,
  one that the store does not give out, though it answers (archived, a bad sector) ObjectUnreadable.
- `delete` of what is not there is no error, and what cannot be deleted (a permission, a legal
  hold, a key that the store fails with) keeps nothing else.
- Nothing may depend on the order of `list`.
- Transient trouble (timeouts, 5xx, SlowDown, resets) is retried inside, with full jitter, until the
  store's own deadline; then ObjectStoreUnavailable. What only an operator can mend (no bucket, no
  permission, a full disk) is ObjectStoreUnavailable at once, and its message says what to mend.
- Cancelling any call is safe: the parts of a cancelled `put` may be changed at once.
- A path is plain and relative (storage/objects/path_rules.py), else ValueError. No path is the
  folder of another: with `a/b` stored, nothing is stored as `a`. An object may be empty.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview

Owned = bytearray | memoryview
"""What whoever got it may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One line of a listing.

    Attributes:
        path: relative to the store's root, without a leading slash.
        size: bytes.
        modified_ms: when it was stored, by the store's clock (Unix time).
    """

    path: str
    size: int
    modified_ms: int


class ObjectStore(Protocol):
    """See the module's docstring for what each verb promises."""

    async def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts` under `path` unless something is there already.

        Raises:
            ObjectConflict: other bytes are stored there.
            ObjectStoreUnavailable: no answer in time; the object may or may not be stored.
        """

    async def get(self, path: str, start: int, length: int) -> Owned:
        """Return `length` bytes from byte `start`; the caller owns, and may change, the result.

        Args:
            path: of the object.
            start: 0 for its first byte.
            length: at least 1.

        Raises:
            ObjectMissing: no such object, or it ends before the range does.
            ObjectUnreadable: the store does not give it out, and others it does.
            ObjectStoreUnavailable: no answer in time; retrying is safe.
        """

    async def delete(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Delete all `paths` that can be; those that do not exist are no error.

        Returns:
            those that the store does not let go, though it does others, and why.

        Raises:
            ObjectStoreUnavailable: no answer in time; any of them may be deleted.
        """

    def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        """Yield all objects whose path starts with `prefix`, in any order."""

    async def close(self) -> None:
        """Release connections. No other call may be under way."""
