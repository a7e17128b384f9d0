"""Identities that every layer shares."""

from typing import NamedTuple
from uuid import UUID


class Partition(NamedTuple):
    """One partition of one topic.

    A topic deleted and made again under its old name has another id, so it never meets old bytes.
    """

    topic_id: UUID
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
