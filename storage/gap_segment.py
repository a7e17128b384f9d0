"""Segments that stand for offsets which nobody has: `streamctl recover` closes gaps with them.

They are built segments like others, for whoever reads them. But what they stand for may be put back
later, and counts more than they do when the index is recovered again: so they are never merged with
others. Compaction may leave empty segments, too, which count: it is the name that tells,
`….gap.seg`. Versions before that did not give them one. Behind the last segment batches without
records stand for them, until brokers build a segment of these and what follows.
"""

import os
from typing import Final

_ENDING: Final = ".gap.seg"


def gap_path(folder: str, partition: int, first: int, last: int) -> str:
    """Return a path that no other object has.

    Args:
        folder: of the topic's segments.
        partition: of the topic.
        first: offset that the segment stands for.
        last: that it stands for (inclusive).
    """
    name = f"{first:08d}-{last:08d}.{os.urandom(4).hex()}{_ENDING}"
    return f"{folder}/partitions/{partition}/segments/{name}"


def is_gap(path: str) -> bool:
    """Return whether an object is such a segment."""
    return path.endswith(_ENDING)
