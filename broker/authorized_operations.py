"""What a client may do with a resource, as the answers that describe it tell (KIP-430).

Without an authorizer everybody may do everything that the kind of resource has.
"""

from typing import Final

NOT_ASKED: Final = -(2**31)


def _bits(*operations: int) -> int:
    """Return operations of an ACL, by their numbers, as a bit field."""
    return sum(1 << operation for operation in operations)


ALL_CLUSTER_OPERATIONS: Final = _bits(5, 7, 8, 9, 10, 11, 12)
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write."""

ALL_GROUP_OPERATIONS: Final = _bits(3, 6, 8, 10, 11)
"""Read, delete, describe, describe and alter configs."""

ALL_TOPIC_OPERATIONS: Final = _bits(3, 4, 5, 6, 7, 8, 10, 11)
"""Read, write, create, delete, alter, describe, describe and alter configs."""
